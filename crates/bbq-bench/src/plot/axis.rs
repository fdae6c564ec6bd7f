//! A logarithmic axis: doubling a value is the same distance everywhere.

/// A value that is so near to a round figure is drawn there: less than a pixel away.
const NEAR: f64 = 0.004;
/// Of 24 decades, more than any figure has.
const TICKS_MAX: usize = 72;

/// From a power of ten, or half or a fifth of one, to another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Logarithmic {
    least: f64,
    most: f64,
}

impl Logarithmic {
    /// From 1 to 10 where there are no values.
    pub(super) fn over(values: impl Iterator<Item = f64>) -> Logarithmic {
        let (least, most) = values
            .filter(|value| *value > 0.0 && value.is_finite())
            .fold((f64::MAX, 0.0_f64), |(least, most), value| (least.min(value), most.max(value)));
        if most == 0.0 {
            return Logarithmic { least: 1.0, most: 10.0 };
        }
        let (least, most) = (step_below(least), step_above(most));
        Logarithmic { least, most: if most > least { most } else { least * 10.0 } }
    }

    /// From 0 at the least to 1 at the most.
    pub(super) fn place(self, value: f64) -> f64 {
        ((value / self.least).ln() / (self.most / self.least).ln()).clamp(0.0, 1.0)
    }

    /// Round figures, about as many as `most`; powers of ten alone where there would be more of the others.
    pub(super) fn ticks(self, most: usize) -> Vec<f64> {
        let mut ticks = Vec::new();
        let mut tick = self.least;
        while tick <= self.most * 1.001 && ticks.len() < TICKS_MAX {
            ticks.push(tick);
            tick = step_above(tick * 1.1);
        }
        if ticks.len() > most {
            ticks.retain(|tick| (tick.log10() - tick.log10().round()).abs() < 0.01);
        }
        let every = ticks.len().div_ceil(most.max(1)).max(1);
        ticks.into_iter().step_by(every).collect()
    }
}

/// 1, 2, 5, 10, 20, ...: the largest that is not above.
fn step_below(value: f64) -> f64 {
    let decade = 10_f64.powf(value.log10().floor());
    [10.0, 5.0, 2.0]
        .into_iter()
        .map(|step| step * decade)
        .find(|step| *step <= value * (1.0 + NEAR))
        .unwrap_or(decade)
}

/// The smallest that is not below.
fn step_above(value: f64) -> f64 {
    let decade = 10_f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0]
        .into_iter()
        .map(|step| step * decade)
        .find(|step| *step >= value * (1.0 - NEAR))
        .unwrap_or(decade * 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_begin_and_end_at_round_figures() {
        let axis = Logarithmic::over([3.0, 700.0].into_iter());
        assert_eq!(axis, Logarithmic { least: 2.0, most: 1000.0 });
        let ticks: Vec<String> = axis.ticks(9).iter().map(|tick| format!("{tick:.0}")).collect();
        assert_eq!(ticks, ["2", "5", "10", "20", "50", "100", "200", "500", "1000"]);
        assert_eq!(
            axis.ticks(8).iter().map(|tick| format!("{tick:.0}")).collect::<Vec<_>>(),
            ["10", "100", "1000"]
        );
        assert_eq!(Logarithmic::over([1e-9, 1e9].into_iter()).ticks(10).len(), 10);
        assert_eq!((axis.place(2.0), axis.place(1000.0)), (0.0, 1.0));
        assert_eq!(Logarithmic::over([5.0].into_iter()), Logarithmic { least: 5.0, most: 50.0 });
        assert_eq!(Logarithmic::over([9.99, 80.0].into_iter()).ticks(9), [10.0, 20.0, 50.0, 100.0]);
        assert_eq!(Logarithmic::over([0.0, f64::NAN].into_iter()), Logarithmic { least: 1.0, most: 10.0 });
    }
}
