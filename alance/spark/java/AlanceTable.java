package alance.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.connector.catalog.SupportsDeleteV2;
import org.apache.spark.sql.connector.catalog.SupportsMetadataColumns;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsRowLevelOperations;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.constraints.Constraint;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.RowLevelOperationBuilder;
import org.apache.spark.sql.connector.write.RowLevelOperationInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A table of the connector, of a catalog or opened by its path. */
class AlanceTable
    implements SupportsRead,
        SupportsWrite,
        SupportsDeleteV2,
        SupportsRowLevelOperations,
        SupportsMetadataColumns {
  private static final Set<TableCapability> OF_A_NAME =
      Set.of(
          TableCapability.BATCH_READ,
          TableCapability.BATCH_WRITE,
          TableCapability.TRUNCATE,
          TableCapability.OVERWRITE_BY_FILTER,
          TableCapability.AUTOMATIC_SCHEMA_EVOLUTION,
          TableCapability.MICRO_BATCH_READ,
          TableCapability.STREAMING_WRITE);
  private static final Set<TableCapability> OF_A_PATH =
      Set.of(
          TableCapability.BATCH_READ,
          TableCapability.BATCH_WRITE,
          TableCapability.TRUNCATE,
          TableCapability.MICRO_BATCH_READ,
          TableCapability.STREAMING_WRITE);

  private final String name; // in a catalog; null: opened by its path
  private final PythonDataSourceV2 python;
  private final StructType schema;
  private final Map<String, String> options;
  private final boolean isWritten; // supports batch writes
  private Opened opened; // null: for a writer, or not yet opened by a reader with its own schema

  AlanceTable(
      String name,
      PythonDataSourceV2 python,
      StructType schema,
      Map<String, String> options,
      Opened opened,
      boolean isWritten) {
    this.name = name;
    this.python = python;
    this.schema = schema;
    this.options = options;
    this.opened = opened;
    this.isWritten = isWritten;
  }

  @Override
  public String name() {
    return name == null ? AlanceProvider.NAME : name;
  }

  boolean isNamed() {
    return name != null;
  }

  @Override
  @SuppressWarnings("deprecation") // columns() derives from it, as in most sources
  public StructType schema() {
    return schema;
  }

  @Override
  public Map<String, String> properties() {
    Map<String, String> properties = new HashMap<>();
    properties.put("provider", AlanceProvider.NAME);
    if (isNamed()) {
      properties.put("location", options.get("path"));
      properties.putAll(opened().properties());
      properties.keySet().removeIf(key -> key.startsWith(Constraints.PREFIX));
    }
    return properties;
  }

  @Override
  public Set<TableCapability> capabilities() {
    Set<TableCapability> all = new HashSet<>(isNamed() ? OF_A_NAME : OF_A_PATH);
    if (!isWritten) {
      all.remove(TableCapability.BATCH_WRITE);
    }
    return all;
  }

  @Override
  public Constraint[] constraints() {
    return Constraints.of(isNamed() ? opened().properties() : Map.of());
  }

  @Override
  public MetadataColumn[] metadataColumns() {
    return new MetadataColumn[] {RowColumn.ADDRESS, RowColumn.ID};
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap given) {
    return scan(given, false, true);
  }

  /**
   * @param marks true to mark blobs with their rows, because the rows may move
   */
  ScanBuilder scanOfChange(CaseInsensitiveStringMap given, boolean marks) {
    return scan(given, marks, false);
  }

  private ScanBuilder scan(CaseInsensitiveStringMap given, boolean marks, boolean isQuery) {
    return new AlanceScanBuilder(
        this, schema, marks, isQuery, columns -> new AlanceStream(this, columns, merged(given)));
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    ObjectNode request = Server.request("save").put("mode", "append");
    return new AlanceWrite(this, info, request);
  }

  @Override
  public RowLevelOperationBuilder newRowLevelOperationBuilder(RowLevelOperationInfo info) {
    return () -> new AlanceChange(this, info.command());
  }

  /** True if Python evaluates the filters like Spark; then no task is run. */
  @Override
  public boolean canDeleteWhere(Predicate[] predicates) {
    for (JsonNode text : textsOf(predicates)) {
      if (text.isNull()) {
        return false;
      }
    }
    return true;
  }

  @Override
  public void deleteWhere(Predicate[] predicates) {
    ObjectNode request = Server.request("delete");
    request.set("filters", textsOf(predicates));
    opened().ask(request);
  }

  /** Filters translated to SQL by Python; null for a filter that is left to Spark. */
  JsonNode textsOf(Predicate[] predicates) {
    return textsOf(opened(), predicates);
  }

  static JsonNode textsOf(Opened version, Predicate[] predicates) {
    ObjectNode request = Server.request("push");
    ArrayNode trees = request.putArray("predicates");
    for (Predicate predicate : predicates) {
      trees.add(Trees.of(predicate));
    }
    return version.ask(request).get("texts");
  }

  /** Options of a write. Writing to a catalog's table does not change its columns. */
  Map<String, String> ofWrite(CaseInsensitiveStringMap given) {
    Map<String, String> all = merged(given);
    if (isNamed()) {
      all.put("keep_schema", "true");
    }
    return all;
  }

  /** The table's options, overridden by the given options. */
  private Map<String, String> merged(CaseInsensitiveStringMap given) {
    Map<String, String> all = new HashMap<>(options);
    all.putAll(given.asCaseSensitiveMap());
    all.remove(AlanceProvider.IN_MODE);
    return all;
  }

  Python python() {
    return Python.of(python.source().dataSourceCls());
  }

  JsonNode ask(ObjectNode request) {
    return Opened.ask(python.source(), request);
  }

  /** After a write to a path, opens the new version, so that views of this table see it. */
  synchronized void written() {
    if (!isNamed() && opened != null) {
      opened = Opened.of(python.source(), new CaseInsensitiveStringMap(options));
    }
  }

  /** The version to read; the current one if none was opened yet. */
  synchronized Opened opened() {
    if (opened == null) {
      opened = Opened.of(python.source(), new CaseInsensitiveStringMap(options));
    }
    return opened;
  }

  /** True if the columns have alance's types; a user may give other types. */
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
}
