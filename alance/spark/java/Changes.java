package alance.spark;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.ColumnDefaultValue;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/** Changes of ALTER TABLE as JSON for Python: `op` and its arguments. */
final class Changes {
  private Changes() {}

  static ArrayNode of(TableChange... changes) {
    ArrayNode all = JsonNodeFactory.instance.arrayNode();
    for (TableChange change : changes) {
      put(all.addObject(), change);
    }
    return all;
  }

  private static void put(ObjectNode node, TableChange change) {
    if (change instanceof TableChange.ColumnChange column) {
      ArrayNode path = node.putArray("path");
      for (String part : column.fieldNames()) {
        path.add(part);
      }
    }
    if (change instanceof TableChange.AddColumn add) {
      put(node.put("op", "add"), add);
      put(node, add.position());
    } else if (change instanceof TableChange.DeleteColumn drop) {
      node.put("op", "drop").put("if_exists", drop.ifExists());
    } else if (change instanceof TableChange.RenameColumn rename) {
      node.put("op", "rename").put("name", rename.newName());
    } else if (change instanceof TableChange.UpdateColumnType cast) {
      node.put("op", "type").put("type", type(cast.newDataType()));
    } else if (change instanceof TableChange.UpdateColumnComment comment) {
      node.put("op", "comment").put("text", comment.newComment());
    } else if (change instanceof TableChange.UpdateColumnPosition move) {
      put(node.put("op", "position"), move.position());
    } else if (change instanceof TableChange.UpdateColumnNullability relax) {
      node.put("op", "nullable").put("nullable", relax.nullable());
    } else if (change instanceof TableChange.UpdateColumnDefaultValue value) {
      node.put("op", "default").put("sql", value.newDefaultValue());
    } else if (change instanceof TableChange.AddConstraint add) {
      node.put("op", "add_constraint").put("key", Constraints.key(add.constraint().name()));
      node.put("value", Constraints.text(add.constraint()));
    } else if (change instanceof TableChange.DropConstraint drop) {
      node.put("op", "drop_constraint").put("key", Constraints.key(drop.name()));
      node.put("if_exists", drop.ifExists());
    } else if (change instanceof TableChange.SetProperty set) {
      node.put("op", "set").put("key", set.property()).put("value", set.value());
    } else if (change instanceof TableChange.RemoveProperty unset) {
      node.put("op", "unset").put("key", unset.property());
    } else {
      node.put("op", change.getClass().getSimpleName());
    }
  }

  /** The new column as Spark's field, which names the default, and the default's value as text. */
  private static void put(ObjectNode node, TableChange.AddColumn add) {
    String[] path = add.fieldNames();
    ColumnDefaultValue value = add.defaultValue();
    Column column =
        Column.create(
            path[path.length - 1], add.dataType(), add.isNullable(), add.comment(), value, null);
    node.put("field", CatalogV2Util.v2ColumnsToStructType(new Column[] {column}).json());
    if (value != null && value.getValue().value() != null) {
      node.put("default", String.valueOf(value.getValue().value()));
    }
  }

  /** The name of the column before a column, empty if it becomes the first; nothing for null. */
  private static void put(ObjectNode node, TableChange.ColumnPosition position) {
    if (position != null) {
      node.put("after", position instanceof TableChange.After after ? after.column() : "");
    }
  }

  private static String type(DataType type) {
    return new StructType().add("value", type).json();
  }
}
