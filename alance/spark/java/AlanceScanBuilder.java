package alance.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import org.apache.spark.sql.connector.expressions.NullOrdering;
import org.apache.spark.sql.connector.expressions.SortDirection;
import org.apache.spark.sql.connector.expressions.SortOrder;
import org.apache.spark.sql.connector.expressions.aggregate.AggregateFunc;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.aggregate.CountStar;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.SupportsPushDownAggregates;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownTopN;
import org.apache.spark.sql.connector.read.SupportsPushDownV2Filters;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/** Pushes parts of a query down. Operations that alance evaluates differently stay in Spark. */
final class AlanceScanBuilder
    implements SupportsPushDownRequiredColumns,
        SupportsPushDownV2Filters,
        SupportsPushDownAggregates,
        SupportsPushDownLimit,
        SupportsPushDownTopN {
  private static final int MOST_ROWS = 1 << 20;
  private static final int MOST_FIRST_ROWS = 10_000; // each task takes them row by row

  private final AlanceTable table;
  private final boolean isQuery; // plans of changes support no runtime filters
  private final Function<StructType, MicroBatchStream> stream;
  private final List<Predicate> pushed = new ArrayList<>();
  private final ObjectNode wish = Server.request("plan");
  private StructType schema;

  AlanceScanBuilder(
      AlanceTable table,
      StructType schema,
      boolean marks,
      boolean isQuery,
      Function<StructType, MicroBatchStream> stream) {
    this.table = table;
    this.schema = schema;
    this.isQuery = isQuery;
    this.stream = stream;
    wish.put("marks", marks);
  }

  @Override
  public void pruneColumns(StructType required) {
    if (!wish.has("aggregates")) {
      schema = required;
    }
  }

  /** Pushes filters down; returns the filters that Spark has to evaluate. */
  @Override
  public Predicate[] pushPredicates(Predicate[] predicates) {
    if (predicates.length == 0 || !table.hasOwnTypes()) {
      return predicates;
    }
    JsonNode texts = table.textsOf(predicates);
    List<Predicate> left = new ArrayList<>();
    for (int i = 0; i < predicates.length; i++) {
      if (texts.get(i).isNull()) {
        left.add(predicates[i]);
      } else {
        pushed.add(predicates[i]);
        wish.withArray("filters").add(texts.get(i));
      }
    }
    return left.toArray(new Predicate[0]);
  }

  @Override
  public Predicate[] pushedPredicates() {
    return pushed.toArray(new Predicate[0]);
  }

  /** Called after all filters were pushed. One task reads the rows, so the limit must be small. */
  @Override
  public boolean pushLimit(int limit) {
    if (limit > MOST_ROWS) {
      return false;
    }
    wish.put("limit", limit);
    return true;
  }

  /** True: each task returns up to the limit, and Spark cuts the result. */
  @Override
  public boolean isPartiallyPushed() {
    return true;
  }

  /** Each task returns its own first rows in the order; Spark merges them. */
  @Override
  public boolean pushTopN(SortOrder[] orders, int limit) {
    if (limit > MOST_FIRST_ROWS || wish.has("aggregates") || !table.hasOwnTypes()) {
      return false;
    }
    ObjectNode request = Server.request("order");
    ArrayNode keys = request.putArray("order");
    for (SortOrder order : orders) {
      ObjectNode key = Trees.of(order.expression());
      key.put("ascending", order.direction() == SortDirection.ASCENDING);
      keys.add(key.put("nulls_first", order.nullOrdering() == NullOrdering.NULLS_FIRST));
    }
    if (!table.opened().ask(request).get("is_ours").asBoolean()) {
      return false;
    }
    wish.set("order", keys);
    wish.put("first", limit);
    return true;
  }

  /** True for the count of a whole table, which the manifest has: it runs no task. */
  @Override
  public boolean supportCompletePushDown(Aggregation aggregation) {
    return pushed.isEmpty()
        && aggregation.groupByExpressions().length == 0
        && aggregation.aggregateExpressions().length == 1
        && aggregation.aggregateExpressions()[0] instanceof CountStar;
  }

  /** Counts, minima and maxima of each task, which Spark combines. */
  @Override
  public boolean pushAggregation(Aggregation aggregation) {
    if (aggregation.groupByExpressions().length != 0 || !table.hasOwnTypes()) {
      return false;
    }
    ObjectNode request = Server.request("aggregate");
    ArrayNode trees = request.putArray("aggregates");
    for (AggregateFunc function : aggregation.aggregateExpressions()) {
      trees.add(Trees.of(function));
    }
    JsonNode answer = table.opened().ask(request);
    if (answer.get("schema").isNull()) {
      return false;
    }
    wish.set("aggregates", trees);
    schema = (StructType) DataType.fromJson(answer.get("schema").asText());
    return true;
  }

  @Override
  public Scan build() {
    boolean isCount = wish.has("aggregates") && !wish.has("filters") && isCountOfAll();
    if (isCount && table.opened().rows() >= 0) {
      return new CountScan(schema, table.opened().rows());
    }
    wish.put("schema", schema.json());
    boolean isCut = wish.has("aggregates") || wish.has("limit") || wish.has("first");
    boolean isFilterable = isQuery && !isCut && table.hasOwnTypes();
    return new AlanceScan(table::opened, wish, schema, pushed, stream, isFilterable);
  }

  private boolean isCountOfAll() {
    JsonNode aggregates = wish.get("aggregates");
    return aggregates.size() == 1 && aggregates.get(0).get("args").isEmpty();
  }
}
