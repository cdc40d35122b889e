package alance.spark;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** Sent to the executors: how to start Python, and the work that all tasks share (null: stream). */
public final class AlanceReaderFactory implements PartitionReaderFactory {
  private static final long serialVersionUID = 1;

  /** `local`, `local[N]`, `local[N, failures]`; and `local-cluster[executors, N, memory]`. */
  private static final Pattern OF_MASTER =
      Pattern.compile("local(?:-cluster)?(?:\\[(?:\\d+, *(?=\\d+,))?(\\d+|\\*).*\\])?");

  private final Python python;
  private final byte[] work;

  AlanceReaderFactory(Python python, byte[] work) {
    this.python = python;
    this.work = work;
  }

  @Override
  public boolean supportColumnarReads(InputPartition partition) {
    return true;
  }

  @Override
  public PartitionReader<InternalRow> createReader(InputPartition partition) {
    throw new UnsupportedOperationException("alance reads columns, not rows");
  }

  @Override
  public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) {
    ObjectNode request = Server.request("read");
    AlancePartition part = (AlancePartition) partition;
    request.put("work", part.work() == null ? work : part.work());
    request.put("pieces", part.pieces());
    request.put("cores", cores(SparkEnv.get().conf(), Runtime.getRuntime().availableProcessors()));
    Server server = Server.of(python);
    try {
      return new AlanceReader(server.send(request));
    } catch (IOException error) {
      throw new PythonError(server.said(error));
    }
  }

  /** Number of tasks that run at once in this JVM, by its configuration. */
  public static int cores(SparkConf conf, int processors) {
    Matcher master = OF_MASTER.matcher(conf.get("spark.master", ""));
    if (!master.matches()) {
      return conf.getInt("spark.executor.cores", processors);
    }
    String cores = master.group(1) == null ? "1" : master.group(1);
    return cores.equals("*") ? processors : Integer.parseInt(cores);
  }
}
