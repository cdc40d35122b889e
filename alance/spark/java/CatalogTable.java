package alance.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.spark.sql.catalyst.analysis.IndexAlreadyExistsException;
import org.apache.spark.sql.catalyst.analysis.NoSuchIndexException;
import org.apache.spark.sql.connector.catalog.index.SupportsIndex;
import org.apache.spark.sql.connector.catalog.index.TableIndex;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import scala.Option;

/** A table of a catalog: CREATE INDEX and DROP INDEX are calls of procedures. */
final class CatalogTable extends AlanceTable implements SupportsIndex {
  private final String uri;

  CatalogTable(String name, PythonDataSourceV2 python, String uri, Opened opened) {
    super(name, python, opened.schema(), Map.of("path", uri), opened, true);
    this.uri = uri;
  }

  @Override
  public void createIndex(
      String index,
      NamedReference[] columns,
      Map<NamedReference, Map<String, String>> ofColumns,
      Map<String, String> properties)
      throws IndexAlreadyExistsException {
    if (columns.length != 1) {
      throw new UnsupportedOperationException(
          "CREATE INDEX " + index + ": expected one column, got " + columns.length);
    }
    if (indexExists(index)) {
      throw new IndexAlreadyExistsException(index, name(), Option.empty());
    }
    ObjectNode arguments = arguments().put("name", index);
    arguments.put("column", String.join(".", columns[0].fieldNames()));
    ObjectNode options = arguments.objectNode();
    properties.forEach(options::put);
    JsonNode kind = options.remove(PROP_TYPE);
    if (kind != null && !kind.asText().isEmpty()) {
      arguments.put("index_type", kind.asText());
    }
    JsonNode metric = options.remove("metric");
    if (metric != null) {
      arguments.set("metric", metric);
    }
    call("create_index", arguments.put("options", options.toString()));
  }

  @Override
  public void dropIndex(String index) throws NoSuchIndexException {
    if (!indexExists(index)) {
      throw new NoSuchIndexException(index, name(), Option.empty());
    }
    call("drop_index", arguments().put("name", index));
  }

  @Override
  public boolean indexExists(String index) {
    for (TableIndex each : listIndexes()) {
      if (each.indexName().equals(index)) {
        return true;
      }
    }
    return false;
  }

  @Override
  public TableIndex[] listIndexes() {
    List<TableIndex> all = new ArrayList<>();
    for (JsonNode row : call("indices", arguments())) {
      String path = row.get(2).asText();
      String column = path.contains("`") ? path : Statements.named(List.of(path.split("\\.")));
      NamedReference[] columns = {Expressions.column(column)};
      all.add(
          new TableIndex(
              row.get(0).asText(), row.get(1).asText(), columns, Map.of(), new Properties()));
    }
    return all.toArray(new TableIndex[0]);
  }

  private ObjectNode arguments() {
    return Server.request("").objectNode().put("table", uri);
  }

  private JsonNode call(String procedure, ObjectNode arguments) {
    ObjectNode request = Server.request("catalog.call").put("procedure", procedure);
    request.put("catalog", name()).putNull("warehouse");
    request.set("arguments", arguments);
    return ask(request).get("rows");
  }
}
