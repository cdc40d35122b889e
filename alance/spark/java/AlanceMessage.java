package alance.spark;

import org.apache.spark.sql.connector.write.WriterCommitMessage;

/** The rows that a task wrote, as JSON between two Python processes. */
record AlanceMessage(String changes) implements WriterCommitMessage {
  private static final long serialVersionUID = 1;
}
