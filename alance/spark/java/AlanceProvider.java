package alance.spark;

import java.util.Map;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The format `alance` for Spark's own planner. Batches are read by the classes of this package; what
 * is written or followed goes to the data source in Python, which the session has under this name.
 */
public final class AlanceProvider implements TableProvider, DataSourceRegister {
  static final String NAME = "alance";

  private final PythonDataSourceV2 python = new PythonDataSourceV2();
  private Opened opened;

  public AlanceProvider() {
    python.setShortName(NAME);
  }

  @Override
  public String shortName() {
    return NAME;
  }

  /** The columns of the version that the options ask for, to which the table keeps. */
  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    opened = Opened.of(python.source(), options);
    return opened.schema();
  }

  @Override
  public boolean supportsExternalMetadata() {
    return true;
  }

  /** Asks nothing of the table: a writer comes here for one that is not there yet. */
  @Override
  public Table getTable(
      StructType schema, Transform[] partitioning, Map<String, String> properties) {
    Table other = python.getTable(schema, partitioning, properties);
    return new AlanceTable(python, other, schema, properties, opened);
  }
}
