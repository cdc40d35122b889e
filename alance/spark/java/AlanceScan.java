package alance.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.OptionalLong;
import java.util.StringJoiner;
import java.util.function.Function;
import java.util.function.Supplier;
import org.apache.spark.sql.connector.expressions.FieldReference;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.read.SupportsRuntimeV2Filtering;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.types.StructType;

/** A query of a version, planned by Python on first use. */
final class AlanceScan implements SupportsReportStatistics, SupportsRuntimeV2Filtering, Batch {
  private static final int MOST_KEYS = 10_000;

  private final Supplier<Opened> version;
  private final ObjectNode wish;
  private final StructType schema;
  private final List<Predicate> pushed;
  private final Function<StructType, MicroBatchStream> stream;
  private final boolean isFilterable;
  private JsonNode plan;

  /**
   * Runtime filters: keys of a join's other side, known when the query runs. They hold for the
   * batch that the same thread requests next, as a plan may use a scan again with other filters.
   */
  private final ThreadLocal<ArrayNode> late = new ThreadLocal<>();

  /**
   * @param isFilterable true if runtime filters may leave out rows
   */
  AlanceScan(
      Supplier<Opened> version,
      ObjectNode wish,
      StructType schema,
      List<Predicate> pushed,
      Function<StructType, MicroBatchStream> stream,
      boolean isFilterable) {
    this.version = version;
    this.wish = wish;
    this.schema = schema;
    this.pushed = pushed;
    this.stream = stream;
    this.isFilterable = isFilterable;
  }

  private synchronized JsonNode plan() {
    if (plan == null) {
      plan = version.get().ask(wish.deepCopy());
    }
    return plan;
  }

  @Override
  public NamedReference[] filterAttributes() {
    String[] names = isFilterable ? schema.fieldNames() : new String[0];
    boolean areTold =
        names.length == Arrays.stream(names).map(String::toLowerCase).distinct().count();
    return areTold
        ? Arrays.stream(names).map(FieldReference::column).toArray(NamedReference[]::new)
        : new NamedReference[0]; // the name would be ambiguous
  }

  /** Optional: Spark joins anyway, so an ignored filter only costs surplus rows. */
  @Override
  public void filter(Predicate[] predicates) {
    Predicate[] few =
        Arrays.stream(predicates)
            .filter(each -> each.children().length <= MOST_KEYS)
            .toArray(Predicate[]::new);
    if (few.length == 0) {
      late.remove();
      return;
    }
    ArrayNode filters = JsonNodeFactory.instance.arrayNode();
    for (JsonNode text : AlanceTable.textsOf(version.get(), few)) {
      if (!text.isNull()) {
        filters.add(text);
      }
    }
    late.set(filters);
  }

  @Override
  public StructType readSchema() {
    return schema;
  }

  @Override
  public String description() {
    StringBuilder text = new StringBuilder(AlanceProvider.NAME);
    text.append(", pushed filters: ").append(pushed);
    if (wish.has("aggregates")) {
      text.append(", pushed aggregates: ").append(schema.catalogString());
    }
    if (wish.has("limit")) {
      text.append(", limit: ").append(wish.get("limit"));
    }
    if (wish.has("first")) {
      text.append(", first ").append(wish.get("first")).append(" by: ").append(order());
    }
    return text.toString();
  }

  private String order() {
    StringJoiner keys = new StringJoiner(", ", "[", "]");
    for (JsonNode key : wish.get("order")) {
      String direction = key.get("ascending").asBoolean() ? " ASC" : " DESC";
      String nulls = key.get("nulls_first").asBoolean() ? " NULLS FIRST" : " NULLS LAST";
      keys.add(key.get("column").get(0).asText() + direction + nulls);
    }
    return keys.toString();
  }

  @Override
  public Batch toBatch() {
    ArrayNode filters = late.get();
    late.remove();
    if (filters == null || filters.isEmpty()) {
      return this;
    }
    ObjectNode request = wish.deepCopy();
    request.withArray("filters").addAll(filters);
    AlanceScan scan = this;
    return new Batch() {
      @Override
      public InputPartition[] planInputPartitions() {
        JsonNode filtered = version.get().ask(request);
        return partitions(filtered, workOf(filtered));
      }

      @Override
      public PartitionReaderFactory createReaderFactory() {
        return scan.createReaderFactory();
      }
    };
  }

  @Override
  public MicroBatchStream toMicroBatchStream(String checkpoint) {
    return stream.apply(schema);
  }

  @Override
  public Statistics estimateStatistics() {
    JsonNode numbers = plan();
    OptionalLong bytes = OptionalLong.of(numbers.get("bytes").asLong());
    OptionalLong rows = OptionalLong.of(numbers.get("rows").asLong());
    return new Statistics() {
      @Override
      public OptionalLong sizeInBytes() {
        return bytes;
      }

      @Override
      public OptionalLong numRows() {
        return rows;
      }
    };
  }

  @Override
  public InputPartition[] planInputPartitions() {
    return partitions(plan(), null);
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return new AlanceReaderFactory(version.get().python(), workOf(plan()));
  }

  private static byte[] workOf(JsonNode plan) {
    return Base64.getDecoder().decode(plan.get("work").asText());
  }

  /**
   * @param work work of all partitions, with runtime filters; null: the factory's work, which Spark
   *     requests before it knows those. Partitions of several tables carry their own work.
   */
  private static InputPartition[] partitions(JsonNode plan, byte[] work) {
    JsonNode pieces = plan.get("partitions");
    InputPartition[] planned = new InputPartition[pieces.size()];
    for (int i = 0; i < planned.length; i++) {
      JsonNode piece = pieces.get(i);
      byte[] own = piece.has("work") ? workOf(piece) : work;
      byte[] rows = Base64.getDecoder().decode(piece.get("pieces").asText());
      planned[i] = new AlancePartition(own, rows);
    }
    return planned;
  }

  /** Spark runs equal scans once for both sides of a join, and finds cached ones. */
  @Override
  public boolean equals(Object object) {
    return object instanceof AlanceScan scan
        && wish.equals(scan.wish)
        && version.get().state().equals(scan.version.get().state());
  }

  @Override
  public int hashCode() {
    return wish.hashCode();
  }
}
