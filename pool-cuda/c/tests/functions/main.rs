//! The C functions, called as C programs call them, on the simulated driver.

mod basics;
mod bed;
mod captures;
mod child;
mod devices;
mod faults;
mod figures;
mod plain;
mod streams;
mod sweep;
mod threads;
mod torch;
