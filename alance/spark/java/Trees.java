package alance.spark;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.aggregate.AggregateFunc;
import org.apache.spark.sql.connector.expressions.aggregate.Count;
import org.apache.spark.sql.connector.expressions.aggregate.CountStar;
import org.apache.spark.sql.connector.expressions.aggregate.Max;
import org.apache.spark.sql.connector.expressions.aggregate.Min;
import org.apache.spark.sql.connector.expressions.filter.Predicate;

/**
 * Spark expressions as JSON for Python to translate: `{"op", "args"}`, `{"column": path}`,
 * `{"literal": text}`. Any other expression becomes the operator `?`.
 */
final class Trees {
  private static final JsonNodeFactory JSON = JsonNodeFactory.instance;

  private Trees() {}

  static ObjectNode of(Expression expression) {
    ObjectNode tree = JSON.objectNode();
    if (expression instanceof NamedReference column) {
      ArrayNode path = tree.putArray("column");
      for (String name : column.fieldNames()) {
        path.add(name);
      }
      return tree;
    }
    // AlwaysTrue is a literal, too, but is sent as an operator.
    if (expression instanceof Literal<?> literal && !(expression instanceof Predicate)) {
      Object value = literal.value(); // dates are days, times are microseconds
      return tree.put("literal", value == null ? null : value.toString());
    }
    tree.put("op", name(expression));
    ArrayNode arguments = tree.putArray("args");
    for (Expression child : expression.children()) {
      arguments.add(of(child));
    }
    return tree;
  }

  private static String name(Expression expression) {
    if (expression instanceof Predicate predicate) {
      return predicate.name();
    }
    if (!(expression instanceof AggregateFunc)) {
      return "?";
    }
    if (expression instanceof CountStar
        || (expression instanceof Count count && !count.isDistinct())) {
      return "COUNT";
    }
    return expression instanceof Min ? "MIN" : expression instanceof Max ? "MAX" : "?";
  }
}
