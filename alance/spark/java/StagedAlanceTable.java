package alance.spark;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.constraints.Constraint;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A table created together with its rows: one version has its columns, settings and rows. */
final class StagedAlanceTable extends AlanceTable implements StagedTable {
  private final ObjectNode request;
  private boolean isWritten;

  /**
   * @param request request that begins the write
   */
  StagedAlanceTable(
      String name,
      PythonDataSourceV2 python,
      StructType schema,
      Map<String, String> options,
      ObjectNode request) {
    super(name, python, schema, options, null, true);
    this.request = request;
  }

  @Override
  public Map<String, String> properties() {
    return Map.of();
  }

  @Override
  public Constraint[] constraints() {
    Map<String, String> config = new HashMap<>();
    request.get("config").properties().forEach(
        entry -> config.put(entry.getKey(), entry.getValue().asText()));
    return Constraints.of(config);
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    return new AlanceWrite(this, info, request);
  }

  @Override
  void written() {
    isWritten = true;
  }

  @Override
  public void commitStagedChanges() {
    if (!isWritten) { // the statement had no rows to write
      new AlanceWrite(this, new NoRows(schema()), request).commitNothing();
    }
  }

  /** Declared by different interfaces in different versions of Spark. */
  public CustomTaskMetric[] reportDriverMetrics() {
    return new CustomTaskMetric[0];
  }

  @Override
  public void abortStagedChanges() {
    // Nothing exists before the commit of the rows.
  }

  /** The write of an empty table. */
  private record NoRows(StructType schema) implements LogicalWriteInfo {
    @Override
    public CaseInsensitiveStringMap options() {
      return CaseInsensitiveStringMap.empty();
    }

    @Override
    public String queryId() {
      return "";
    }
  }
}
