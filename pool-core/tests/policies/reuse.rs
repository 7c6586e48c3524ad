//! Which free memory serves a request.
