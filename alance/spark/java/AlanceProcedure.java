package alance.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Iterator;
import java.util.List;
import java.util.function.Function;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.catalog.procedures.BoundProcedure;
import org.apache.spark.sql.connector.catalog.procedures.ProcedureParameter;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A procedure that Python runs.
 *
 * @param about its name, parameters and result columns
 * @param python sends a request to Python and returns the answer
 */
record AlanceProcedure(JsonNode about, Function<ObjectNode, JsonNode> python)
    implements UnboundProcedure, BoundProcedure {

  @Override
  public String name() {
    return about.get("name").asText();
  }

  @Override
  public String description() {
    return about.get("description").asText();
  }

  @Override
  public BoundProcedure bind(StructType input) {
    return this;
  }

  @Override
  public boolean isDeterministic() {
    return false;
  }

  @Override
  public ProcedureParameter[] parameters() {
    JsonNode all = about.get("parameters");
    ProcedureParameter[] parameters = new ProcedureParameter[all.size()];
    for (int i = 0; i < parameters.length; i++) {
      JsonNode node = all.get(i);
      ProcedureParameter.Builder parameter =
          ProcedureParameter.in(node.get("name").asText(), type(node.get("type").asText()));
      boolean isOptional = node.get("optional").asBoolean();
      parameters[i] = (isOptional ? parameter.defaultValue("NULL") : parameter).build();
    }
    return parameters;
  }

  private static DataType type(String name) {
    return switch (name) {
      case "long" -> DataTypes.LongType;
      case "double" -> DataTypes.DoubleType;
      case "boolean" -> DataTypes.BooleanType;
      default -> DataTypes.StringType;
    };
  }

  @Override
  public Iterator<Scan> call(InternalRow input) {
    ObjectNode request = Server.request("catalog.call").put("procedure", name());
    ObjectNode arguments = request.putObject("arguments");
    ProcedureParameter[] parameters = parameters();
    for (int i = 0; i < parameters.length; i++) {
      Object value = input.get(i, parameters[i].dataType());
      if (value instanceof Long number) {
        arguments.put(parameters[i].name(), number);
      } else if (value instanceof Double number) {
        arguments.put(parameters[i].name(), number);
      } else if (value instanceof Boolean truth) {
        arguments.put(parameters[i].name(), truth);
      } else if (value != null) {
        arguments.put(parameters[i].name(), value.toString());
      }
    }
    StructType schema = StructType.fromDDL(about.get("result").asText());
    JsonNode rows = python.apply(request).get("rows");
    InternalRow[] told = new InternalRow[rows.size()];
    for (int i = 0; i < told.length; i++) {
      Object[] values = new Object[schema.size()];
      for (int j = 0; j < values.length; j++) {
        values[j] = value(rows.get(i).get(j));
      }
      told[i] = new GenericInternalRow(values);
    }
    return List.<Scan>of(new Told(schema, told)).iterator();
  }

  private static Object value(JsonNode node) {
    if (node.isNull()) {
      return null;
    }
    if (node.isBoolean()) {
      return node.asBoolean();
    }
    return node.isNumber() ? (Object) node.asLong() : UTF8String.fromString(node.asText());
  }

  private record Told(StructType readSchema, InternalRow[] rows) implements LocalScan {}
}
