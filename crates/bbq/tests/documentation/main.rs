//! The documentation says what is. If this fails, a reader of a page is led to nothing, or types what the program refuses.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod command_line;
mod commands;
mod configuration;
mod examples;
mod links;
mod pages;
