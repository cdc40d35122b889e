package alance.spark;

import org.apache.spark.sql.connector.read.InputPartition;

/**
 * What one task reads.
 *
 * @param work of a stream, or with filters that came late; null: that of all tasks
 * @param pieces records of fragments, pickled
 */
record AlancePartition(byte[] work, byte[] pieces) implements InputPartition {
  private static final long serialVersionUID = 1;
}
