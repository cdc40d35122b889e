package alance.spark;

/** An error of the Python process: its type, its text and where it was raised. */
final class PythonError extends RuntimeException {
  private static final long serialVersionUID = 1;

  PythonError(String message) {
    super(message);
  }
}
