//! Several pools on one device.
