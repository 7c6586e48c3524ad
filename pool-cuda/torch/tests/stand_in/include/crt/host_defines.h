// Stands in for a header that the runtime's own includes.
