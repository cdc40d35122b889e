package alance.spark;

import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogManager;
import org.apache.spark.sql.internal.SQLConf;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Statements that are short for a call of a procedure on a table.
 *
 * <p>A statement about a table of another catalog stays as it is, for Spark or another extension.
 */
final class Statements {
  private static final String TABLE = "(?<table>(?:`[^`]*`|[\\w.]+)+)";
  private static final String NAME = "(?<name>`[^`]+`|\\w+)";
  private static final String OF_VERSION = "(?: as of version (?<number>\\d+))?";
  private static final Pattern GROUP = Pattern.compile("\\{(\\w+)\\}");

  /**
   * @param pattern the statement; the group `table` is the table's name
   * @param procedure name of the procedure
   * @param arguments its arguments, which name groups in braces; without one that did not match
   */
  private record Statement(Pattern pattern, String procedure, List<String> arguments) {
    /**
     * @param text a pattern in which a blank stands for any white space
     */
    static Statement of(String text, String procedure, String... arguments) {
      String spaced = "\\s*" + text.replace(" ", "\\s+") + "\\s*;?\\s*";
      Pattern pattern = Pattern.compile(spaced, Pattern.CASE_INSENSITIVE);
      return new Statement(pattern, procedure, List.of(arguments));
    }

    String call(String catalog, String table, Matcher match) {
      StringBuilder all = new StringBuilder("table => " + literal(table));
      for (String argument : arguments) {
        Matcher group = GROUP.matcher(argument);
        group.find();
        String text = match.group(group.group(1));
        if (text != null) {
          String value = group.group(1).equals("name") ? literal(text.replace("`", "")) : text;
          all.append(", ").append(group.replaceFirst(Matcher.quoteReplacement(value)));
        }
      }
      return "CALL " + quoted(catalog) + ".system." + procedure + "(" + all + ")";
    }
  }

  private static final List<Statement> ALL =
      List.of(
          Statement.of("optimize " + TABLE, "compact"),
          Statement.of("maintain " + TABLE, "maintain"),
          Statement.of(
              "vacuum " + TABLE + "(?: retain (?<number>[\\d.]+) hours)?",
              "cleanup",
              "older_than_days => {number}D / 24D"),
          Statement.of("show (?:indexes|indices) (?:in|from|on) " + TABLE, "indices"),
          Statement.of("(?:describe|desc|show) history (?:of )?" + TABLE, "versions"),
          Statement.of(
              "restore (?:table )?"
                  + TABLE
                  + " to (?:version as of (?<number>\\d+)|tag "
                  + NAME
                  + ")",
              "restore",
              "version => '{number}'",
              "version => {name}"),
          Statement.of(
              "alter table " + TABLE + " create tag " + NAME + OF_VERSION,
              "create_tag",
              "tag => {name}",
              "version => {number}"),
          Statement.of(
              "alter table " + TABLE + " drop tag " + NAME, "delete_tag", "tag => {name}"),
          Statement.of(
              "alter table " + TABLE + " create branch " + NAME + OF_VERSION,
              "create_branch",
              "branch => {name}",
              "version => '{number}'"),
          Statement.of(
              "alter table " + TABLE + " drop branch " + NAME,
              "delete_branch",
              "branch => {name}"));

  private final ParserInterface parser;

  /**
   * @param parser parser of names
   */
  Statements(ParserInterface parser) {
    this.parser = parser;
  }

  /** The call that a statement is short for; other statements as they are. */
  String asCall(String sql) throws ParseException {
    for (Statement statement : ALL) {
      Matcher match = statement.pattern().matcher(sql);
      if (match.matches()) {
        return asCall(sql, statement, match);
      }
    }
    return sql;
  }

  private String asCall(String sql, Statement statement, Matcher match) throws ParseException {
    List<String> parts =
        CollectionConverters.asJava(parser.parseMultipartIdentifier(match.group("table")));
    if (parts.size() > 1 && isCatalog(parts.get(0))) {
      List<String> rest = parts.subList(1, parts.size());
      return isOurs(parts.get(0)) ? statement.call(parts.get(0), named(rest), match) : sql;
    }
    CatalogManager catalogs = SparkSession.active().sessionState().catalogManager();
    String current = catalogs.currentCatalog().name();
    if (!isOurs(current)) {
      return sql;
    }
    String[] namespace = parts.size() > 1 ? new String[0] : catalogs.currentNamespace();
    String prefix = namespace.length == 0 ? "" : named(List.of(namespace)) + ".";
    return statement.call(current, prefix + named(parts), match);
  }

  private static boolean isCatalog(String name) {
    return name.equals(CatalogManager.SESSION_CATALOG_NAME()) || !classOf(name).isEmpty();
  }

  private static boolean isOurs(String name) {
    return classOf(name).equals(AlanceCatalog.class.getName());
  }

  private static String classOf(String name) {
    return SQLConf.get().getConfString("spark.sql.catalog." + name, "");
  }

  /** A name in SQL. */
  static String named(List<String> parts) {
    return parts.stream().map(Statements::quoted).collect(Collectors.joining("."));
  }

  private static String quoted(String part) {
    return "`" + part.replace("`", "``") + "`";
  }

  private static String literal(String text) {
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'";
  }
}
