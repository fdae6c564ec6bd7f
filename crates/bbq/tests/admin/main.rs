//! The admin as people see it: the page in a real browser, and `bbq tail`.

mod browser;
mod filters;
mod page;
mod picture;
#[path = "../support/mod.rs"]
mod support;
mod tail;
mod tail_under_load;
mod viewers;
