package alance.spark;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.sql.connector.catalog.constraints.Check;
import org.apache.spark.sql.connector.catalog.constraints.Constraint;
import org.apache.spark.sql.connector.catalog.constraints.PrimaryKey;
import org.apache.spark.sql.connector.catalog.constraints.Unique;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;

/**
 * Constraints of a table: JSON in its configuration, under `spark.constraint.` and the name.
 *
 * <p>Spark enforces CHECK when it writes. Other writers do not know the constraints.
 */
final class Constraints {
  static final String PREFIX = "spark.constraint.";
  private static final ObjectMapper JSON = new ObjectMapper();

  private Constraints() {}

  /** Key of a constraint in the configuration. */
  static String key(String name) {
    return PREFIX + name;
  }

  /** Value of a constraint in the configuration. */
  static String text(Constraint constraint) {
    ObjectNode node = JSON.createObjectNode();
    if (constraint instanceof Check check) {
      node.put("kind", "check").put("sql", check.predicateSql());
    } else if (constraint instanceof PrimaryKey key) {
      putColumns(node.put("kind", "primary_key"), key.columns());
    } else if (constraint instanceof Unique unique) {
      putColumns(node.put("kind", "unique"), unique.columns());
    } else {
      throw new UnsupportedOperationException(
          "constraint " + constraint.name() + ": tables of Lance have no foreign keys");
    }
    node.put("enforced", constraint.enforced()).put("rely", constraint.rely());
    return node.put("status", constraint.validationStatus().name()).toString();
  }

  private static void putColumns(ObjectNode node, NamedReference[] columns) {
    ArrayNode all = node.putArray("columns");
    for (NamedReference column : columns) {
      ArrayNode path = all.addArray();
      for (String part : column.fieldNames()) {
        path.add(part);
      }
    }
  }

  /** Constraints in a configuration, ordered by name. */
  static Constraint[] of(Map<String, String> config) {
    List<Constraint> constraints = new ArrayList<>();
    new TreeMap<>(config).forEach((key, text) -> {
      if (key.startsWith(PREFIX)) {
        constraints.add(of(key.substring(PREFIX.length()), text));
      }
    });
    return constraints.toArray(new Constraint[0]);
  }

  private static Constraint of(String name, String text) {
    try {
      JsonNode node = JSON.readTree(text);
      boolean enforced = node.get("enforced").asBoolean();
      boolean rely = node.get("rely").asBoolean();
      Constraint.ValidationStatus status =
          Constraint.ValidationStatus.valueOf(node.get("status").asText());
      return switch (node.get("kind").asText()) { // the builders have no common public class
        case "check" -> Constraint.check(name).predicateSql(node.get("sql").asText())
            .enforced(enforced).rely(rely).validationStatus(status).build();
        case "primary_key" -> Constraint.primaryKey(name, columns(node))
            .enforced(enforced).rely(rely).validationStatus(status).build();
        case "unique" -> Constraint.unique(name, columns(node))
            .enforced(enforced).rely(rely).validationStatus(status).build();
        default -> throw new IllegalArgumentException("the kind is not known");
      };
    } catch (JsonProcessingException | RuntimeException error) {
      throw new IllegalStateException(
          "configuration " + key(name) + ": expected a constraint in JSON, got " + text, error);
    }
  }

  private static NamedReference[] columns(JsonNode node) {
    List<NamedReference> columns = new ArrayList<>();
    for (JsonNode path : node.get("columns")) {
      List<String> quoted = new ArrayList<>();
      path.forEach(part -> quoted.add("`" + part.asText().replace("`", "``") + "`"));
      columns.add(Expressions.column(String.join(".", quoted)));
    }
    return columns.toArray(new NamedReference[0]);
  }
}
