//! Layouts round trip and refuse everything else; the log against the slow and obvious model.

mod blob;
mod log;
