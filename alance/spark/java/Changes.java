package alance.spark;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
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
      boolean isPlain = add.position() == null && add.defaultValue() == null;
      node.put("op", isPlain ? "add" : "a position or default value of a new column");
      node.put("nullable", add.isNullable()).put("type", type(add.dataType()));
      node.put("comment", add.comment());
    } else if (change instanceof TableChange.DeleteColumn drop) {
      node.put("op", "drop").put("if_exists", drop.ifExists());
    } else if (change instanceof TableChange.RenameColumn rename) {
      node.put("op", "rename").put("name", rename.newName());
    } else if (change instanceof TableChange.UpdateColumnType cast) {
      node.put("op", "type").put("type", type(cast.newDataType()));
    } else if (change instanceof TableChange.UpdateColumnComment comment) {
      node.put("op", "comment").put("text", comment.newComment());
    } else if (change instanceof TableChange.UpdateColumnNullability relax) {
      node.put("op", "nullable").put("nullable", relax.nullable());
    } else if (change instanceof TableChange.SetProperty set) {
      node.put("op", "set").put("key", set.property()).put("value", set.value());
    } else if (change instanceof TableChange.RemoveProperty unset) {
      node.put("op", "unset").put("key", unset.property());
    } else {
      node.put("op", change.getClass().getSimpleName());
    }
  }

  private static String type(DataType type) {
    return new StructType().add("value", type).json();
  }
}
