//! What a pool takes before anyone asks.
