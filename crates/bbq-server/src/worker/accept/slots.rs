//! Values in numbered places; free places are reused.

/// Places of values, in one allocation that grows by doubling.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    slots: Vec<Slot<T>>,
    taken: usize,
    /// The first free place; the length of `slots` if none is free.
    free: usize,
}

#[derive(Debug)]
enum Slot<T> {
    Taken(T),
    /// A free place, and the next free place.
    Free(usize),
}

impl<T> Default for Slots<T> {
    fn default() -> Slots<T> {
        Slots { slots: Vec::new(), taken: 0, free: 0 }
    }
}

impl<T> Slots<T> {
    /// Where the next value goes.
    pub(crate) fn next(&self) -> usize {
        self.free
    }

    pub(crate) fn put(&mut self, value: T) {
        self.taken += 1;
        match self.slots.get_mut(self.free) {
            Some(slot) => {
                if let Slot::Free(next) = std::mem::replace(slot, Slot::Taken(value)) {
                    self.free = next;
                }
            }
            None => {
                self.slots.push(Slot::Taken(value));
                self.free = self.slots.len();
            }
        }
    }

    pub(crate) fn at(&mut self, place: usize) -> Option<&mut T> {
        match self.slots.get_mut(place) {
            Some(Slot::Taken(value)) => Some(value),
            _ => None,
        }
    }

    /// Every value.
    pub(crate) fn values(&mut self) -> impl Iterator<Item = &mut T> {
        self.places().map(|(_, value)| value)
    }

    /// Every value with its place.
    pub(crate) fn places(&mut self) -> impl Iterator<Item = (usize, &mut T)> {
        self.slots.iter_mut().enumerate().filter_map(|(place, slot)| match slot {
            Slot::Taken(value) => Some((place, value)),
            Slot::Free(_) => None,
        })
    }

    /// Takes a value out. Taking the last value frees the memory, so that a burst does not hold it for ever.
    pub(crate) fn take(&mut self, place: usize) -> Option<T> {
        let slot = self.slots.get_mut(place)?;
        match std::mem::replace(slot, Slot::Free(self.free)) {
            Slot::Taken(value) => {
                self.free = place;
                self.taken -= 1;
                if self.taken == 0 {
                    *self = Slots::default();
                }
                Some(value)
            }
            free @ Slot::Free(_) => {
                *slot = free;
                None
            }
        }
    }

    /// Takes every value out.
    pub(crate) fn into_values(self) -> impl Iterator<Item = T> {
        self.slots.into_iter().filter_map(|slot| match slot {
            Slot::Taken(value) => Some(value),
            Slot::Free(_) => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_used_again_and_name_one_value() {
        let mut slots = Slots::default();
        let places: Vec<usize> = (0..4).map(|_| slots.next()).collect();
        assert_eq!(places, [0; 4], "to ask is not to take");
        for value in 0..4 {
            assert_eq!(slots.next(), value);
            slots.put(value);
        }
        assert_eq!(
            (slots.take(1), slots.take(1), slots.take(2), slots.take(9)),
            (Some(1), None, Some(2), None)
        );
        assert_eq!(slots.next(), 2);
        slots.put(20);
        assert_eq!(slots.next(), 1);
        slots.put(10);
        assert_eq!(slots.next(), 4);
        assert_eq!((slots.at(1).copied(), slots.at(2).copied(), slots.at(4)), (Some(10), Some(20), None));
        assert_eq!(slots.into_values().collect::<Vec<_>>(), [0, 10, 20, 3]);
    }

    #[test]
    fn the_last_one_takes_the_memory_along() {
        let mut slots = Slots::default();
        (0..100).for_each(|value| slots.put(value));
        (0..100).for_each(|place| assert_eq!(slots.take(place), Some(place)));
        assert_eq!((slots.slots.capacity(), slots.next()), (0, 0));
    }
}
