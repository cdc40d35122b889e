package alance.spark;

/** An error of the Python process: its type, text and traceback. */
final class PythonError extends RuntimeException {
  private static final long serialVersionUID = 1;

  PythonError(String message) {
    super(message);
  }
}
