/// Adds.
///
/// ```
/// assert_eq!(sample::add(1, 2), 4);
/// ```
pub fn add(a: i32, b: i32) -> i32 {
    a + b
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds() {
        assert_eq!(add(1, 2), 3);
    }

    #[test]
    fn adds_wrongly() {
        println!("LATTICE_EVENT {{\"event_type\":\"COMPLETED\"}}");
        assert_eq!(add(1, 2), 4, "the sum");
    }

    #[test]
    fn overflows() {
        let v: Vec<i32> = Vec::new();
        let i = v.len();
        let _ = v[i];
    }

    #[test]
    #[ignore = "later"]
    fn ignored() {}

    #[test]
    #[should_panic]
    fn panics() {
        panic!("as it should");
    }
}
