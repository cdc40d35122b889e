package alance.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.analysis.NamespaceAlreadyExistsException;
import org.apache.spark.sql.catalyst.analysis.NoSuchFunctionException;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.NonEmptyNamespaceException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.FunctionCatalog;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.ProcedureCatalog;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.StagingTableCatalog;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalogCapability;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.TableInfo;
import org.apache.spark.sql.connector.catalog.constraints.Constraint;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Folders of tables, by name. Python answers all requests; see `catalog.py` for the folders. */
public final class AlanceCatalog
    implements StagingTableCatalog, SupportsNamespaces, ProcedureCatalog, FunctionCatalog {
  private static final String SYSTEM = "system"; // namespace of procedures

  private String name;

  @Override
  public void initialize(String name, CaseInsensitiveStringMap options) {
    this.name = name;
  }

  @Override
  public String name() {
    return name;
  }

  private static PythonDataSourceV2 python() {
    PythonDataSourceV2 python = new PythonDataSourceV2();
    python.setShortName(AlanceProvider.NAME);
    return python;
  }

  private JsonNode ask(ObjectNode request) {
    request.put("warehouse", setting("warehouse"));
    request.put("blobs", setting("blobs"));
    return Opened.ask(python().source(), request.put("catalog", name));
  }

  /** The session's setting of this catalog, or null. */
  private String setting(String key) {
    String full = "spark.sql.catalog." + name + "." + key;
    scala.Option<String> text = SparkSession.active().conf().getOption(full);
    return text.isEmpty() ? null : text.get();
  }

  private static ObjectNode request(String verb, String... namespace) {
    ObjectNode request = Server.request("catalog." + verb);
    return put(request, "namespace", namespace);
  }

  private static ObjectNode request(String verb, Identifier table) {
    return request(verb, table.namespace()).put("name", table.name());
  }

  private static ObjectNode put(ObjectNode request, String key, String... parts) {
    ArrayNode array = request.putArray(key);
    for (String part : parts) {
      array.add(part);
    }
    return request;
  }

  // Tables

  @Override
  public Identifier[] listTables(String[] namespace) throws NoSuchNamespaceException {
    return identifiers(namespace, found(ask(request("tables", namespace)), namespace));
  }

  private static Identifier[] identifiers(String[] namespace, JsonNode answer) {
    List<Identifier> identifiers = new ArrayList<>();
    answer.get("names").forEach(node -> identifiers.add(Identifier.of(namespace, node.asText())));
    return identifiers.toArray(new Identifier[0]);
  }

  @Override
  public Table loadTable(Identifier table) throws NoSuchTableException {
    return load(table, request("load", table));
  }

  @Override
  public Table loadTable(Identifier table, String version) throws NoSuchTableException {
    return load(table, request("load", table).put("version", version));
  }

  @Override
  public Table loadTable(Identifier table, long micros) throws NoSuchTableException {
    return load(table, request("load", table).put("asof", micros));
  }

  private Table load(Identifier table, ObjectNode request) throws NoSuchTableException {
    JsonNode answer = found(ask(request), table);
    PythonDataSourceV2 python = python();
    Opened opened = Opened.of(python.source(), answer);
    return new CatalogTable(fullName(table), python, answer.get("uri").asText(), opened);
  }

  private String fullName(Identifier table) {
    return name + "." + table;
  }

  @Override
  public Set<TableCatalogCapability> capabilities() {
    return Set.of(
        TableCatalogCapability.SUPPORT_COLUMN_DEFAULT_VALUE,
        TableCatalogCapability.SUPPORT_TABLE_CONSTRAINT);
  }

  @Override
  public Table createTable(Identifier table, TableInfo info)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    stageCreate(table, info).commitStagedChanges();
    try {
      return loadTable(table);
    } catch (NoSuchTableException error) {
      throw Opened.<RuntimeException>as(error);
    }
  }

  /** Columns, with defaults and comments, and constraints are those of the other table. */
  @Override
  public Table createTableLike(Identifier table, TableInfo info, Table other)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    return createTable(table, info);
  }

  @Override
  public StagedTable stageCreate(Identifier table, TableInfo info)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    JsonNode place = place(table, info);
    if (place.get("there").asBoolean()) {
      throw new TableAlreadyExistsException(table);
    }
    return stage(table, info, place, Server.request("save").put("mode", "create"));
  }

  @Override
  public StagedTable stageReplace(Identifier table, TableInfo info)
      throws NoSuchNamespaceException, NoSuchTableException {
    JsonNode place = place(table, info);
    if (!place.get("there").asBoolean()) {
      throw new NoSuchTableException(table);
    }
    ObjectNode request = Server.request("save").put("mode", "replace").put("must_exist", true);
    return stage(table, info, place, request);
  }

  @Override
  public StagedTable stageCreateOrReplace(Identifier table, TableInfo info)
      throws NoSuchNamespaceException {
    JsonNode place = place(table, info);
    ObjectNode request = Server.request("save").put("mode", "replace").put("must_exist", false);
    return stage(table, info, place, request);
  }

  /** The location of a new table, and its options and configuration. */
  private JsonNode place(Identifier table, TableInfo info) throws NoSuchNamespaceException {
    if (!namespaceExists(table.namespace())) {
      throw new NoSuchNamespaceException(table.namespace());
    }
    ObjectNode request = request("new", table).put("partitions", info.partitions().length);
    request.put("default", SparkSession.active().conf().get("spark.sql.sources.default"));
    request.set("properties", Opened.texts(info.properties()));
    return ask(request);
  }

  private StagedTable stage(
      Identifier table, TableInfo info, JsonNode place, ObjectNode request) {
    Map<String, String> options = new HashMap<>();
    place.get("options").properties().forEach(
        entry -> options.put(entry.getKey(), entry.getValue().asText()));
    ObjectNode config = (ObjectNode) place.get("config");
    for (Constraint constraint : info.constraints()) {
      config.put(Constraints.key(constraint.name()), Constraints.text(constraint));
    }
    request.set("config", config);
    StructType schema = CatalogV2Util.v2ColumnsToStructType(info.columns());
    return new StagedAlanceTable(fullName(table), python(), schema, options, request);
  }

  @Override
  public Table alterTable(Identifier table, TableChange... changes) throws NoSuchTableException {
    ObjectNode request = request("alter", table);
    request.set("changes", Changes.of(changes));
    found(ask(request), table);
    return loadTable(table);
  }

  @Override
  public boolean dropTable(Identifier table) {
    return ask(request("drop", table)).get("dropped").asBoolean();
  }

  @Override
  public boolean purgeTable(Identifier table) {
    return dropTable(table);
  }

  @Override
  public void renameTable(Identifier table, Identifier other)
      throws NoSuchTableException, TableAlreadyExistsException {
    ObjectNode request = request("rename", table).put("to_name", other.name());
    JsonNode answer = found(ask(put(request, "to_namespace", other.namespace())), table);
    if (answer.has("there")) {
      throw new TableAlreadyExistsException(other);
    }
  }

  private static JsonNode found(JsonNode answer, Identifier table) throws NoSuchTableException {
    if (answer.has("missing")) {
      throw new NoSuchTableException(table);
    }
    return answer;
  }

  private static JsonNode found(JsonNode answer, String[] namespace)
      throws NoSuchNamespaceException {
    if (answer.has("missing")) {
      throw new NoSuchNamespaceException(namespace);
    }
    return answer;
  }

  // Namespaces

  @Override
  public boolean namespaceExists(String[] namespace) {
    return namespace.length == 0 || ask(request("namespace", namespace)).get("there").asBoolean();
  }

  @Override
  public String[][] listNamespaces() throws NoSuchNamespaceException {
    return listNamespaces(new String[0]);
  }

  @Override
  public String[][] listNamespaces(String[] namespace) throws NoSuchNamespaceException {
    List<String[]> namespaces = new ArrayList<>();
    for (JsonNode child : found(ask(request("namespaces", namespace)), namespace).get("names")) {
      String[] path = java.util.Arrays.copyOf(namespace, namespace.length + 1);
      path[namespace.length] = child.asText();
      namespaces.add(path);
    }
    return namespaces.toArray(new String[0][]);
  }

  @Override
  public Map<String, String> loadNamespaceMetadata(String[] namespace)
      throws NoSuchNamespaceException {
    JsonNode properties = found(ask(request("describe_namespace", namespace)), namespace);
    Map<String, String> texts = new java.util.HashMap<>();
    properties.fields().forEachRemaining(entry -> texts.put(entry.getKey(), entry.getValue().asText()));
    return texts;
  }

  @Override
  public void createNamespace(String[] namespace, Map<String, String> properties)
      throws NamespaceAlreadyExistsException {
    ObjectNode request = request("create_namespace", namespace);
    properties.forEach(request.putObject("properties")::put);
    if (ask(request).has("there")) {
      throw new NamespaceAlreadyExistsException(namespace);
    }
  }

  @Override
  public void alterNamespace(String[] namespace, NamespaceChange... changes)
      throws NoSuchNamespaceException {
    ObjectNode request = request("alter_namespace", namespace);
    ObjectNode properties = request.putObject("properties");
    for (NamespaceChange change : changes) {
      if (change instanceof NamespaceChange.SetProperty set) {
        properties.put(set.property(), set.value());
      } else {
        properties.putNull(((NamespaceChange.RemoveProperty) change).property());
      }
    }
    found(ask(request), namespace);
  }

  @Override
  public boolean dropNamespace(String[] namespace, boolean cascade)
      throws NoSuchNamespaceException, NonEmptyNamespaceException {
    JsonNode answer = ask(request("drop_namespace", namespace).put("cascade", cascade));
    if (found(answer, namespace).has("full")) {
      throw new NonEmptyNamespaceException(namespace);
    }
    return true;
  }

  // Functions: none, so that Spark names similar functions of its own after `USE`.

  @Override
  public Identifier[] listFunctions(String[] namespace) {
    return new Identifier[0];
  }

  @Override
  public UnboundFunction loadFunction(Identifier function) throws NoSuchFunctionException {
    throw new NoSuchFunctionException(function);
  }

  // Procedures

  @Override
  public UnboundProcedure loadProcedure(Identifier procedure) {
    for (JsonNode about : procedures()) {
      if (isSystem(procedure.namespace())
          && about.get("name").asText().equalsIgnoreCase(procedure.name())) {
        return new AlanceProcedure(about, this::ask);
      }
    }
    throw new UnsupportedOperationException(
        "no procedure " + procedure + " in " + name + ": SHOW PROCEDURES IN " + name + ".system");
  }

  @Override
  public Identifier[] listProcedures(String[] namespace) {
    List<Identifier> identifiers = new ArrayList<>();
    if (isSystem(namespace)) {
      procedures().forEach(
          about -> identifiers.add(Identifier.of(namespace, about.get("name").asText())));
    }
    return identifiers.toArray(new Identifier[0]);
  }

  private JsonNode procedures() {
    return ask(request("procedures")).get("procedures");
  }

  private static boolean isSystem(String[] namespace) {
    return namespace.length == 1 && namespace[0].equals(SYSTEM);
  }
}
