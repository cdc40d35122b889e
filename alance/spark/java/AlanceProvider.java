package alance.spark;

import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.DataFrameWriter;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.sources.CreatableRelationProvider;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The format `alance` for Spark's own planner. The session has the Python data source under the
 * same name, whose pickled class holds the storage options.
 */
public final class AlanceProvider
    implements TableProvider, DataSourceRegister, CreatableRelationProvider {
  static final String NAME = "alance";
  static final String IN_MODE = "alance_in_mode"; // option set by `createRelation`

  /** Properties of tables of Spark's own catalog; Python refuses to write these, with advice. */
  private static final Set<String> OF_SPARK = Set.of("location", "provider", "owner");

  private final PythonDataSourceV2 python = new PythonDataSourceV2();
  private Opened opened;

  public AlanceProvider() {
    python.setShortName(NAME);
  }

  @Override
  public String shortName() {
    return NAME;
  }

  /** The columns of the version that the options name; the table keeps them. */
  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    opened = Opened.of(python.source(), options);
    return opened.schema();
  }

  @Override
  public boolean supportsExternalMetadata() {
    return true;
  }

  /**
   * Sends no request, since a writer's table may not exist yet. Spark refuses modes that create a
   * table of the second data source interface. So a writer gets a table without batch writes, and
   * falls back to the first interface, `createRelation`, with its mode. That is avoided if an
   * option may hold secrets: Spark shows the options of its first interface in plans.
   */
  @Override
  public Table getTable(
      StructType schema, Transform[] partitioning, Map<String, String> properties) {
    Map<String, String> options = new HashMap<>(properties);
    boolean isInMode = options.remove(IN_MODE) != null;
    boolean isGiven =
        options.keySet().stream()
            .anyMatch(key -> OF_SPARK.contains(key) || key.toLowerCase().startsWith("storage"));
    boolean isWritten = isInMode || isGiven || opened != null;
    return new AlanceTable(null, python, schema, options, opened, isWritten);
  }

  /** Write rows in a mode of DataFrameWriter. */
  @Override
  public BaseRelation createRelation(
      SQLContext context,
      SaveMode mode,
      scala.collection.immutable.Map<String, String> parameters,
      Dataset<Row> rows) {
    boolean creates = mode == SaveMode.ErrorIfExists || mode == SaveMode.Ignore;
    DataFrameWriter<Row> writer =
        rows.write().format(NAME).option(IN_MODE, "true").options(asGiven(parameters));
    if (creates) {
      writer.option("if_exists", mode == SaveMode.Ignore ? "ignore" : "error");
    }
    writer.mode(creates ? SaveMode.Append : mode).save();
    StructType schema = rows.schema();
    return new BaseRelation() {
      @Override
      public SQLContext sqlContext() {
        return context;
      }

      @Override
      public StructType schema() {
        return schema;
      }
    };
  }

  /** True: Python refuses types that cannot be stored, as for the second interface. */
  @Override
  public boolean supportsDataType(DataType type) {
    return true;
  }

  private static scala.collection.immutable.Map<String, String> asGiven(
      scala.collection.immutable.Map<String, String> options) {
    return options instanceof CaseInsensitiveMap<String> lowered ? lowered.originalMap() : options;
  }
}
