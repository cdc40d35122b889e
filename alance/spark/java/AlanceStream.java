package alance.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadAllAvailable;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.types.StructType;

/** Rows that versions of a table add. Each request to Python carries the query's state. */
final class AlanceStream implements MicroBatchStream, SupportsTriggerAvailableNow {
  private final AlanceTable table;
  private final StructType schema;
  private final Map<String, String> options;
  private Long target; // last version of a query that ends; null: endless

  AlanceStream(AlanceTable table, StructType schema, Map<String, String> options) {
    this.table = table;
    this.schema = schema;
    this.options = options;
  }

  private JsonNode ask(ObjectNode request) {
    request.set("options", Opened.texts(options));
    return table.ask(request);
  }

  @Override
  public Offset initialOffset() {
    return offset(ask(Server.request("stream.initial")));
  }

  @Override
  public ReadLimit getDefaultReadLimit() {
    JsonNode limit = ask(Server.request("stream.limit"));
    if (limit.has("rows")) {
      return ReadLimit.maxRows(limit.get("rows").asLong());
    }
    if (limit.has("bytes")) {
      return ReadLimit.maxBytes(limit.get("bytes").asLong());
    }
    return limit.has("files")
        ? ReadLimit.maxFiles(limit.get("files").asInt())
        : ReadLimit.allAvailable();
  }

  @Override
  public void prepareForTriggerAvailableNow() {
    target = ask(Server.request("stream.latest")).get("version").asLong();
  }

  @Override
  public Offset latestOffset(Offset start, ReadLimit limit) {
    ObjectNode request = Server.request("stream.next").put("start", start.json());
    request.put("limited", !(limit instanceof ReadAllAvailable));
    if (target != null) {
      request.put("target", target);
    }
    return offset(ask(request));
  }

  @Override
  public Offset latestOffset() {
    throw new UnsupportedOperationException("asked with where it starts");
  }

  @Override
  public InputPartition[] planInputPartitions(Offset start, Offset end) {
    ObjectNode request = Server.request("stream.plan");
    request.put("start", start.json()).put("end", end.json()).put("schema", schema.json());
    List<InputPartition> planned = new ArrayList<>();
    for (JsonNode version : ask(request).get("versions")) {
      byte[] work = Base64.getDecoder().decode(version.get("work").asText());
      for (JsonNode pieces : version.get("partitions")) {
        planned.add(new AlancePartition(work, Base64.getDecoder().decode(pieces.asText())));
      }
    }
    return planned.toArray(new InputPartition[0]);
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return new AlanceReaderFactory(table.python(), null);
  }

  @Override
  public Offset deserializeOffset(String json) {
    return new Place(json);
  }

  private static Offset offset(JsonNode answer) {
    return new Place(answer.get("offset").asText());
  }

  @Override
  public void commit(Offset end) {}

  @Override
  public void stop() {}

  @Override
  public String toString() {
    return AlanceProvider.NAME; // the options may hold secrets
  }

  /** Offset of a stream as Python's JSON; see `following.py`. */
  private static final class Place extends Offset {
    private final String json;

    Place(String json) {
      this.json = json;
    }

    @Override
    public String json() {
      return json;
    }
  }
}
