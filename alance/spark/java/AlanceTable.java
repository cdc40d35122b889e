package alance.spark;

import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A table: read in batches here, written and followed by the data source in Python. */
final class AlanceTable implements SupportsRead, SupportsWrite {
  private final PythonDataSourceV2 python;
  private final Table other;
  private final StructType schema;
  private final Map<String, String> properties;
  private Opened opened; // null: of a writer, or until a reader with a schema of its own asks

  AlanceTable(
      PythonDataSourceV2 python,
      Table other,
      StructType schema,
      Map<String, String> properties,
      Opened opened) {
    this.python = python;
    this.other = other;
    this.schema = schema;
    this.properties = properties;
    this.opened = opened;
  }

  @Override
  public String name() {
    return AlanceProvider.NAME;
  }

  @Override
  @SuppressWarnings("deprecation") // columns() is made of it, as of most sources
  public StructType schema() {
    return schema;
  }

  @Override
  public Set<TableCapability> capabilities() {
    return other.capabilities();
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    return new AlanceScanBuilder(this, schema, () -> other(options));
  }

  /** The version that is read: the one of the schema, or else the one that is found now. */
  synchronized Opened opened() {
    if (opened == null) {
      opened = Opened.of(python.source(), new CaseInsensitiveStringMap(properties));
    }
    return opened;
  }

  /** Whether Spark sees the columns in the types that alance tells it: a user may say others. */
  boolean hasOwnTypes() {
    Map<String, DataType> types = new HashMap<>();
    for (StructField field : opened().schema().fields()) {
      types.put(field.name(), field.dataType());
    }
    for (StructField field : schema.fields()) {
      if (!field.dataType().equals(types.get(field.name()))) {
        return false;
      }
    }
    return true;
  }

  private ScanBuilder other(CaseInsensitiveStringMap options) {
    return ((SupportsRead) other).newScanBuilder(options);
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    return ((SupportsWrite) other).newWriteBuilder(info);
  }
}
