package alance.spark;

import org.apache.spark.sql.connector.read.InputPartition;

/**
 * What one task reads.
 *
 * @param work shared with other tasks of the same version, in a stream; null: that of all tasks
 * @param pieces records of fragments, pickled
 */
record AlancePartition(byte[] work, byte[] pieces) implements InputPartition {
  private static final long serialVersionUID = 1;
}
