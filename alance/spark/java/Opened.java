package alance.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Map;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.errors.QueryCompilationErrors;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A version of a table, as the driver's Python process knows it.
 *
 * @param python how Python is started, here and on the executors
 * @param state what Python wants to be asked with: pickled options, with those of the store
 * @param schema the columns
 * @param rows those that are not deleted
 */
record Opened(Python python, String state, StructType schema, long rows) {

  /**
   * @param source the data source in Python: its class has the storage options of `register`
   */
  static Opened of(UserDefinedPythonDataSource source, CaseInsensitiveStringMap options) {
    Python python = Python.of(source.dataSourceCls());
    ObjectNode request = Server.request("open");
    request.put("source", Python.command(source.dataSourceCls()));
    request.put("parallelism", SparkSession.active().sparkContext().defaultParallelism());
    ObjectNode texts = request.putObject("options");
    for (Map.Entry<String, String> option : options.asCaseSensitiveMap().entrySet()) {
      texts.put(option.getKey(), option.getValue());
    }
    JsonNode answer = ask(python, request);
    StructType schema = (StructType) DataType.fromJson(answer.get("schema").asText());
    return new Opened(python, answer.get("state").asText(), schema, answer.get("rows").asLong());
  }

  @Override
  public String toString() {
    return AlanceProvider.NAME; // the state has secrets
  }

  /** Ask Python something of this version. */
  JsonNode ask(ObjectNode request) {
    request.put("state", state);
    return ask(python, request);
  }

  private static JsonNode ask(Python python, ObjectNode request) {
    try {
      return Server.of(python).ask(request);
    } catch (PythonError error) {
      throw Opened.<RuntimeException>as(
          QueryCompilationErrors.pythonDataSourceError(
              "plan", AlanceProvider.NAME, error.getMessage()));
    }
  }

  /** Spark's analysis errors are checked ones, which its interfaces do not declare. */
  @SuppressWarnings("unchecked")
  private static <E extends Throwable> E as(Throwable error) throws E {
    throw (E) error;
  }
}
