//! Environment variables that the server sets itself.

/// The variable in which the command of a sink `exec:` finds the options of its SPEC.
pub const EXEC_VARIABLE: &str = "BBQ_EXEC";
