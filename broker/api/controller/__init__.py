"""What only the controller answers; any other broker says that it is not. Each handler takes a request apart, and
``broker.controller.api`` does the rest."""
