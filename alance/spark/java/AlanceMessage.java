package alance.spark;

import org.apache.spark.sql.connector.write.WriterCommitMessage;

/** What a task has written, as Python says it to Python: JSON. */
record AlanceMessage(String changes) implements WriterCommitMessage {
  private static final long serialVersionUID = 1;
}
