package alance.spark;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.LeftAnti$;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.write.RowLevelOperationTable;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegralType;
import org.apache.spark.sql.types.StringType;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The key columns of a statement that inserts rows because the table lacks them: MERGE INTO with
 * WHEN NOT MATCHED. If it has no other clause, Spark plans an anti join and an append. Two
 * concurrent statements must not both insert a key, so the commit has to know the key columns. No
 * interface for connectors gives them; the plan of the statement does.
 */
final class LookedUp {
  private LookedUp() {}

  /**
   * Put the key columns into a write's request as `on`: the columns of the table that the statement
   * of this thread compares by `=`. The list is empty if the statement compares in another way.
   */
  static void into(ObjectNode request, AlanceTable table) {
    boolean isAppend = "append".equals(request.get("mode").asText());
    if (!isAppend && !request.has("on")) {
      return; // not a merge
    }
    for (Join join : joins(plan(), new ArrayList<>())) {
      boolean isAnti = join.joinType().equals(LeftAnti$.MODULE$);
      Map<ExprId, String> columns = new HashMap<>();
      addColumns(join.right(), table, columns);
      if (!isAppend) {
        addColumns(join.left(), table, columns);
      }
      if (columns.isEmpty() || isAppend && !isAnti) {
        continue;
      }
      Set<String> on = new LinkedHashSet<>();
      if (join.condition().isDefined()) {
        addKeys(join.condition().get(), columns, on);
      }
      if (isAppend) { // commit against the version that the statement has read
        request.put("mode", "change").put("state", table.opened().state());
      }
      ArrayNode names = request.putArray("on");
      on.forEach(names::add);
      return;
    }
  }

  /** Plan of the statement that this thread runs, or null. */
  private static LogicalPlan plan() {
    String id =
        SparkSession.active().sparkContext().getLocalProperty(SQLExecution.EXECUTION_ID_KEY());
    QueryExecution execution = id == null ? null : SQLExecution.getQueryExecution(Long.parseLong(id));
    return execution == null ? null : execution.optimizedPlan();
  }

  private static List<Join> joins(LogicalPlan plan, List<Join> joins) {
    if (plan == null) {
      return joins;
    }
    if (plan instanceof Join join) {
      joins.add(join);
    }
    for (LogicalPlan child : CollectionConverters.asJava(plan.children())) {
      joins(child, joins);
    }
    return joins;
  }

  private static void addColumns(LogicalPlan plan, AlanceTable table, Map<ExprId, String> columns) {
    DataSourceV2Relation relation =
        plan instanceof DataSourceV2ScanRelation scan
            ? (DataSourceV2Relation) scan.relation()
            : plan instanceof DataSourceV2Relation plain ? plain : null;
    if (relation != null && isOf(relation.table(), table)) {
      for (Attribute attribute : CollectionConverters.asJava(relation.output())) {
        columns.put(attribute.exprId(), attribute.name());
      }
    }
    for (LogicalPlan child : CollectionConverters.asJava(plan.children())) {
      addColumns(child, table, columns);
    }
  }

  private static boolean isOf(Table read, AlanceTable table) {
    return read == table
        || read instanceof RowLevelOperationTable changed && changed.table() == table;
  }

  /** Add the columns that a condition compares by `=` with an expression of the other side. */
  private static void addKeys(Expression condition, Map<ExprId, String> columns, Set<String> on) {
    if (condition instanceof And both) {
      addKeys(both.left(), columns, on);
      addKeys(both.right(), columns, on);
    } else if (condition instanceof EqualTo equal) {
      String left = column(equal.left(), columns);
      String right = column(equal.right(), columns);
      if ((left == null) != (right == null)) { // both sides: the table is merged into itself
        on.add(left == null ? right : left);
      }
    }
  }

  /** The column that an expression reads, or null if equal values may have different bytes. */
  private static String column(Expression expression, Map<ExprId, String> columns) {
    if (expression instanceof Cast cast
        && cast.dataType() instanceof IntegralType wide
        && cast.child().dataType() instanceof IntegralType narrow
        && wide.defaultSize() >= narrow.defaultSize()) {
      return column(cast.child(), columns);
    }
    if (!(expression instanceof AttributeReference attribute) || !isExact(attribute.dataType())) {
      return null;
    }
    return columns.get(attribute.exprId());
  }

  private static boolean isExact(DataType type) {
    boolean isPlainText = !(type instanceof StringType) || type.equals(DataTypes.StringType);
    return isPlainText && !(type instanceof FloatType) && !(type instanceof DoubleType);
  }
}
