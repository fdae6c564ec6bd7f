//! Plots: a bar for each row, or lines through points. What is measured stands out; what it is compared with is grey.
//!
//! Invariant: a picture is as large as its texts need, so that nothing is cut off.

mod axis;
mod bars;
mod curves;
#[cfg(test)]
pub(crate) mod fits;
mod frame;
mod letters;

pub(crate) use bars::{Bar, bars};
pub(crate) use curves::{Axis, Curve, Dot, curves};
pub(crate) use frame::Words;
