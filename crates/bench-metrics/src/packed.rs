//! Whole numbers one after the other, each in as few bytes as it needs: what very many requests leave until their cell ends.

/// Bytes of a chunk. A full one is followed by another; nothing is copied to make room.
const CHUNK: usize = 1 << 15;
/// Bits of a number in one byte; the eighth says that more follow.
const BITS: u32 = 7;
const MORE: u8 = 1 << BITS;

/// Whole numbers that are read in the order in which they were pushed.
#[derive(Clone, Debug, Default)]
pub struct PackedInts {
    chunks: Vec<Vec<u8>>,
}

impl PackedInts {
    /// Adds a number, in one byte for each seven bits of it.
    pub fn push(&mut self, mut n: u64) {
        while n >> BITS != 0 {
            self.byte(n.to_le_bytes()[0] | MORE);
            n >>= BITS;
        }
        self.byte(n.to_le_bytes()[0]);
    }

    /// The same for one that may be negative; small ones of both signs are short.
    pub fn push_signed(&mut self, n: i64) {
        self.push(((n << 1) ^ (n >> 63)).cast_unsigned());
    }

    /// Adds those that are there, as [`Self::push_signed`]; [`presence`] tells the reader which.
    pub fn push_present(&mut self, numbers: &[Option<i64>]) {
        for number in numbers.iter().flatten() {
            self.push_signed(*number);
        }
    }

    fn byte(&mut self, byte: u8) {
        match self.chunks.last_mut() {
            Some(chunk) if chunk.len() < CHUNK => chunk.push(byte),
            _ => {
                let mut chunk = Vec::with_capacity(CHUNK);
                chunk.push(byte);
                self.chunks.push(chunk);
            }
        }
    }

    /// Bytes so far: the position of the number that is pushed next.
    pub fn bytes(&self) -> usize {
        let last = self.chunks.last().map_or(0, Vec::len);
        self.chunks.len().saturating_sub(1) * CHUNK + last
    }

    /// The numbers from a position on.
    pub fn read_from(&self, position: usize) -> IntReader<std::slice::Iter<'_, Vec<u8>>> {
        let chunks = self.chunks.get(position / CHUNK..).unwrap_or_default();
        IntReader::new(chunks.iter(), position % CHUNK)
    }

    /// All numbers; what was read is given back chunk by chunk.
    pub fn into_reader(self) -> IntReader<std::vec::IntoIter<Vec<u8>>> {
        IntReader::new(self.chunks.into_iter(), 0)
    }
}

/// Reads numbers in the order in which they were pushed; nothing after the last one.
#[derive(Debug)]
pub struct IntReader<I: Iterator> {
    chunks: I,
    chunk: Option<I::Item>,
    at: usize,
}

impl<I: Iterator<Item: AsRef<[u8]>>> IntReader<I> {
    fn new(mut chunks: I, at: usize) -> Self {
        Self {
            chunk: chunks.next(),
            chunks,
            at,
        }
    }

    fn byte(&mut self) -> Option<u8> {
        loop {
            if let Some(byte) = self.chunk.as_ref()?.as_ref().get(self.at) {
                self.at += 1;
                return Some(*byte);
            }
            (self.chunk, self.at) = (self.chunks.next(), 0);
        }
    }

    /// The next number.
    pub fn unsigned(&mut self) -> Option<u64> {
        let (mut n, mut shift) = (0, 0);
        while shift < u64::BITS {
            let byte = self.byte()?;
            n |= u64::from(byte & !MORE) << shift;
            if byte & MORE == 0 {
                return Some(n);
            }
            shift += BITS;
        }
        None
    }

    /// The next number, which was pushed as one that may be negative.
    pub fn signed(&mut self) -> Option<i64> {
        let n = self.unsigned()?;
        Some((n >> 1).cast_signed() ^ -(n & 1).cast_signed())
    }

    /// The next `N` numbers that may be negative, without those whose bit in `there` ([`presence`]) is not set: they were not pushed.
    pub fn present<const N: usize>(&mut self, there: u64) -> Option<[Option<i64>; N]> {
        let mut numbers = [None; N];
        for (bit, number) in numbers.iter_mut().enumerate() {
            if there >> bit & 1 != 0 {
                *number = Some(self.signed()?);
            }
        }
        Some(numbers)
    }
}

/// Which of at most 64 numbers are there: a bit each, from the lowest.
pub fn presence(numbers: &[Option<i64>]) -> u64 {
    let bits = numbers.iter().enumerate();
    bits.fold(0, |all, (bit, number)| {
        all | u64::from(number.is_some()) << bit
    })
}

#[cfg(test)]
#[path = "../tests/unit/packed.rs"]
mod tests;
