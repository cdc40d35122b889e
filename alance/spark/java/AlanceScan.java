package alance.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Base64;
import java.util.List;
import java.util.OptionalLong;
import java.util.function.Function;
import java.util.function.Supplier;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.types.StructType;

/** A query of a version, planned by Python when Spark first asks. */
final class AlanceScan implements SupportsReportStatistics, Batch {
  private final Supplier<Opened> version;
  private final ObjectNode wish;
  private final StructType schema;
  private final List<Predicate> pushed;
  private final Function<StructType, MicroBatchStream> stream;
  private JsonNode plan;

  AlanceScan(
      Supplier<Opened> version,
      ObjectNode wish,
      StructType schema,
      List<Predicate> pushed,
      Function<StructType, MicroBatchStream> stream) {
    this.version = version;
    this.wish = wish;
    this.schema = schema;
    this.pushed = pushed;
    this.stream = stream;
  }

  private synchronized JsonNode plan() {
    if (plan == null) {
      plan = version.get().ask(wish.deepCopy());
    }
    return plan;
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
    return text.toString();
  }

  @Override
  public Batch toBatch() {
    return this;
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
    JsonNode partitions = plan().get("partitions");
    InputPartition[] planned = new InputPartition[partitions.size()];
    for (int i = 0; i < planned.length; i++) {
      planned[i] = new AlancePartition(null, Base64.getDecoder().decode(partitions.get(i).asText()));
    }
    return planned;
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    byte[] work = Base64.getDecoder().decode(plan().get("work").asText());
    return new AlanceReaderFactory(version.get().python(), work);
  }

  /** Equal scans are run once for both sides of a join, and found where one is cached. */
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
