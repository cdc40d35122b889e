package alance.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.HashMap;
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
 * @param python how to start Python, here and on the executors
 * @param state pickled options for requests, including the options of the store
 * @param schema columns
 * @param rows number of live rows
 * @param properties configuration of the table
 */
record Opened(
    Python python, String state, StructType schema, long rows, Map<String, String> properties) {

  /**
   * @param source the Python data source, whose class holds the storage options of `register`
   */
  static Opened of(UserDefinedPythonDataSource source, CaseInsensitiveStringMap options) {
    ObjectNode request = Server.request("open");
    request.set("options", texts(options.asCaseSensitiveMap()));
    return of(source, ask(source, request));
  }

  /**
   * @param answer Python's answer to a request to open a version
   */
  static Opened of(UserDefinedPythonDataSource source, JsonNode answer) {
    StructType schema = (StructType) DataType.fromJson(answer.get("schema").asText());
    Map<String, String> properties = new HashMap<>();
    answer.get("config").properties().forEach(
        entry -> properties.put(entry.getKey(), entry.getValue().asText()));
    return new Opened(
        Python.of(source.dataSourceCls()),
        answer.get("state").asText(),
        schema,
        answer.get("rows").asLong(),
        properties);
  }

  /** Send a request to Python with the data source of the session. */
  static JsonNode ask(UserDefinedPythonDataSource source, ObjectNode request) {
    request.put("source", Python.command(source.dataSourceCls()));
    request.put("parallelism", SparkSession.active().sparkContext().defaultParallelism());
    return ask(Python.of(source.dataSourceCls()), request);
  }

  static ObjectNode texts(Map<String, String> options) {
    ObjectNode texts = JsonNodeFactory.instance.objectNode();
    options.forEach(texts::put);
    return texts;
  }

  @Override
  public String toString() {
    return AlanceProvider.NAME; // the state holds secrets
  }

  /** Send a request about this version to Python. */
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

  /** Throw an error undeclared: Spark's analysis errors are checked, its interfaces omit them. */
  @SuppressWarnings("unchecked")
  static <E extends Throwable> E as(Throwable error) throws E {
    throw (E) error;
  }
}
