package alance.spark;

import org.apache.spark.sql.connector.read.InputPartition;

/**
 * Rows that one task reads.
 *
 * @param work pickled work of a stream's part, or with runtime filters; null: the factory's work
 * @param pieces pickled records of fragments
 */
record AlancePartition(byte[] work, byte[] pieces) implements InputPartition {
  private static final long serialVersionUID = 1;
}
