package alance.spark;

import org.apache.spark.sql.connector.read.InputPartition;

/** What one task reads: records of fragments, pickled. */
record AlancePartition(byte[] pieces) implements InputPartition {
  private static final long serialVersionUID = 1;
}
