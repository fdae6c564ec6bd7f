//! Values by key, as in a slab: the keys of removed values are reused.

/// Places of values, in one allocation that grows by doubling.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    slots: Vec<Slot<T>>,
    taken: usize,
    /// The first free key; the length of `slots` if none is free.
    free: usize,
}

#[derive(Debug)]
enum Slot<T> {
    Taken(T),
    /// A free slot, and the next free key.
    Free(usize),
}

impl<T> Default for Slots<T> {
    fn default() -> Slots<T> {
        Slots { slots: Vec::new(), taken: 0, free: 0 }
    }
}

impl<T> Slots<T> {
    pub(crate) fn is_empty(&self) -> bool {
        self.taken == 0
    }

    /// The key of the next value.
    pub(crate) fn vacant_key(&self) -> usize {
        self.free
    }

    pub(crate) fn insert(&mut self, value: T) {
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

    pub(crate) fn get_mut(&mut self, key: usize) -> Option<&mut T> {
        match self.slots.get_mut(key) {
            Some(Slot::Taken(value)) => Some(value),
            _ => None,
        }
    }

    /// Every value with its key.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut T)> {
        self.slots.iter_mut().enumerate().filter_map(|(key, slot)| match slot {
            Slot::Taken(value) => Some((key, value)),
            Slot::Free(_) => None,
        })
    }

    /// Takes a value out. Taking the last value frees the memory, so that a burst does not hold it for ever.
    pub(crate) fn remove(&mut self, key: usize) -> Option<T> {
        let slot = self.slots.get_mut(key)?;
        match std::mem::replace(slot, Slot::Free(self.free)) {
            Slot::Taken(value) => {
                self.free = key;
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
        let keys: Vec<usize> = (0..4).map(|_| slots.vacant_key()).collect();
        assert_eq!(keys, [0; 4], "asking for a key does not take it");
        for value in 0..4 {
            assert_eq!(slots.vacant_key(), value);
            slots.insert(value);
        }
        assert_eq!(
            (slots.remove(1), slots.remove(1), slots.remove(2), slots.remove(9)),
            (Some(1), None, Some(2), None)
        );
        assert_eq!(slots.vacant_key(), 2);
        slots.insert(20);
        assert_eq!(slots.vacant_key(), 1);
        slots.insert(10);
        assert_eq!(slots.vacant_key(), 4);
        assert_eq!(
            (slots.get_mut(1).copied(), slots.get_mut(2).copied(), slots.get_mut(4)),
            (Some(10), Some(20), None)
        );
        assert_eq!(slots.into_values().collect::<Vec<_>>(), [0, 10, 20, 3]);
    }

    #[test]
    fn the_last_one_takes_the_memory_along() {
        let mut slots = Slots::default();
        (0..100).for_each(|value| slots.insert(value));
        (0..100).for_each(|key| assert_eq!(slots.remove(key), Some(key)));
        assert_eq!((slots.slots.capacity(), slots.vacant_key()), (0, 0));
    }
}
