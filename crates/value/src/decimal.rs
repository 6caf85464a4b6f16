//! Exact decimal numbers of an evaluation. They leave it as texts, so no stored value contains one.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use bigdecimal::num_traits::{ToPrimitive, Zero};
use bigdecimal::{BigDecimal, RoundingMode};

/// The largest number of digits of a decimal number, before and after the point together.
pub const MAX_DIGITS: u8 = 38;
/// The longest text of a decimal number, in bytes: [`MAX_DIGITS`] with a sign, a point and an exponent.
const MAX_TEXT: usize = 64;

/// A decimal number of at most [`MAX_DIGITS`] digits. It keeps the zeros at its end: `12.30` has two digits after the point.
///
/// A result with more digits is rounded, the last digit to the nearest even one; only a number whose digits before the point are too
/// many is an error. So each operation does bounded work.
#[derive(Clone, Debug)]
pub struct Decimal(BigDecimal);

/// The reason why there is no decimal number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecimalError {
    /// The text is not a number.
    #[error("it is not a number")]
    NotANumber,
    /// The number has more than [`MAX_DIGITS`] digits.
    #[error("it has more than {MAX_DIGITS} digits")]
    TooManyDigits,
    /// A division by zero.
    #[error("division by zero")]
    DivisionByZero,
}

/// The direction of a rounding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// To the nearest number; a half away from zero.
    Nearest,
    /// To the next greater number.
    Up,
    /// To the next smaller number.
    Down,
}

impl Decimal {
    /// Parses a decimal number, such as `-12.30` or `1e3`.
    ///
    /// # Errors
    /// Returns an error if the text is not a number, or has too many digits.
    pub fn parse(text: &str) -> Result<Self, DecimalError> {
        let text = text.trim();
        let is_part = |byte: u8| matches!(byte, b'0'..=b'9' | b'.' | b'+' | b'-' | b'e' | b'E');
        if !text.bytes().all(is_part) || !text.bytes().any(|byte| byte.is_ascii_digit()) {
            return Err(DecimalError::NotANumber);
        }
        if text.len() > MAX_TEXT {
            return Err(DecimalError::TooManyDigits);
        }
        let number = BigDecimal::from_str(text).map_err(|_| DecimalError::NotANumber)?;
        let exact = fit(number.clone())?;
        // Zeros at the end do not count.
        if exact.0 == number { Ok(exact) } else { Err(DecimalError::TooManyDigits) }
    }

    /// The sum.
    ///
    /// # Errors
    /// Returns an error if it has too many digits before the point, here and below.
    pub fn add(&self, other: &Self) -> Result<Self, DecimalError> {
        fit(&self.0 + &other.0)
    }

    /// The difference.
    ///
    /// # Errors
    /// As [`Decimal::add`].
    pub fn subtract(&self, other: &Self) -> Result<Self, DecimalError> {
        fit(&self.0 - &other.0)
    }

    /// The product.
    ///
    /// # Errors
    /// As [`Decimal::add`].
    pub fn multiply(&self, other: &Self) -> Result<Self, DecimalError> {
        fit(&self.0 * &other.0)
    }

    /// The quotient, without zeros at its end that neither operand has.
    ///
    /// # Errors
    /// As [`Decimal::add`], and for a division by zero.
    pub fn divide(&self, other: &Self) -> Result<Self, DecimalError> {
        if other.is_zero() {
            return Err(DecimalError::DivisionByZero);
        }
        // Of 100 digits, enough to round a quotient of two numbers of 38 digits correctly.
        let quotient = fit((&self.0 / &other.0).normalized())?;
        let least = self.scale().saturating_sub(other.scale());
        if quotient.scale() >= least { Ok(quotient) } else { fit(quotient.0.with_scale(least)) }
    }

    /// The number with the opposite sign.
    #[must_use]
    pub fn negate(&self) -> Self {
        Self(-&self.0)
    }

    /// The number without its sign.
    #[must_use]
    pub fn abs(&self) -> Self {
        Self(self.0.abs())
    }

    /// The number with exactly `places` digits after the point.
    ///
    /// # Errors
    /// As [`Decimal::add`].
    pub fn round(&self, places: u8, rounding: Rounding) -> Result<Self, DecimalError> {
        let mode = match rounding {
            Rounding::Nearest => RoundingMode::HalfUp,
            Rounding::Up => RoundingMode::Ceiling,
            Rounding::Down => RoundingMode::Floor,
        };
        let rounded = self.0.with_scale_round(i64::from(places.min(MAX_DIGITS)), mode);
        if digits(&rounded) > i64::from(MAX_DIGITS) {
            Err(DecimalError::TooManyDigits)
        } else {
            Ok(Self(rounded))
        }
    }

    /// True for zero.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.0.is_zero()
    }

    /// The number without its digits after the point; `None` if it does not fit 128 bits.
    #[must_use]
    pub fn to_integer(&self) -> Option<i128> {
        self.0.to_i128()
    }

    /// The nearest float.
    #[must_use]
    pub fn to_float(&self) -> f64 {
        self.0.to_f64().unwrap_or_default()
    }

    /// The number of digits after the point.
    fn scale(&self) -> i64 {
        self.0.fractional_digit_count()
    }
}

/// The number of significant digits.
fn digits(number: &BigDecimal) -> i64 {
    i64::try_from(number.digits()).unwrap_or(i64::MAX)
}

/// Rounds a number to [`MAX_DIGITS`] digits, at most as many of them after the point.
fn fit(number: BigDecimal) -> Result<Decimal, DecimalError> {
    let max = i64::from(MAX_DIGITS);
    if number.is_zero() {
        return Ok(Decimal(BigDecimal::new(0.into(), number.fractional_digit_count().clamp(0, max))));
    }
    let whole = digits(&number).saturating_sub(number.fractional_digit_count());
    if whole > max {
        return Err(DecimalError::TooManyDigits);
    }
    if whole < -max {
        return Ok(Decimal(BigDecimal::zero()));
    }
    let places = number.fractional_digit_count().clamp(0, max - whole.max(0));
    let mut fitted = number.with_scale_round(places, RoundingMode::HalfEven);
    // Nines that are rounded up make one digit more.
    if digits(&fitted) > max {
        if places == 0 {
            return Err(DecimalError::TooManyDigits);
        }
        fitted = fitted.with_scale(places - 1);
    }
    Ok(Decimal(fitted))
}

impl From<i128> for Decimal {
    /// The number of an integer, of which those of 64 bits have few enough digits.
    fn from(integer: i128) -> Self {
        Self(integer.into())
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0.to_plain_string())
    }
}

impl PartialEq for Decimal {
    /// Compares the numbers: `1.0` equals `1.00`.
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Decimal {}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.cmp(&other.0)
    }
}

impl Hash for Decimal {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let (number, scale) = self.0.normalized().into_bigint_and_exponent();
        number.hash(state);
        scale.hash(state);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn number(text: &str) -> Decimal {
        Decimal::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn shown(result: Result<Decimal, DecimalError>) -> String {
        result.map_or_else(|error| error.to_string(), |number| number.to_string())
    }

    #[test]
    fn a_decimal_keeps_the_digits_after_its_point() {
        for text in ["36.90", "0", "-0.001", "123456789012345678901234567890", "0.10"] {
            assert_eq!(number(text).to_string(), text);
        }
        assert_eq!(number(" 1.5e3 ").to_string(), "1500");
        assert_eq!(number(&format!("1.{}", "0".repeat(50))), number("1"));
        for text in ["", "x", "1,5", "0x10", "NaN", "1_000", "--1", "."] {
            assert_eq!(Decimal::parse(text), Err(DecimalError::NotANumber), "{text}");
        }
    }

    #[test]
    fn a_decimal_has_at_most_38_digits() {
        let most = "9".repeat(38);
        assert_eq!(number(&most).to_string(), most);
        for text in [format!("{most}9"), format!("{most}.5"), "1e38".to_owned(), "1e999999999".to_owned()] {
            assert_eq!(Decimal::parse(&text), Err(DecimalError::TooManyDigits), "{text}");
        }
        assert_eq!(Decimal::parse("1e-999999999"), Err(DecimalError::TooManyDigits));
        assert_eq!(number(&most).add(&number("1")), Err(DecimalError::TooManyDigits));
        assert_eq!(number(&most).round(1, Rounding::Nearest), Err(DecimalError::TooManyDigits));
        assert_eq!(shown(number(&most).multiply(&number("0.5"))), "50000000000000000000000000000000000000");
    }

    #[test]
    fn arithmetic_is_exact_and_rounds_only_beyond_its_digits() {
        assert_eq!(shown(number("0.1").add(&number("0.2"))), "0.3");
        assert_eq!(shown(number("12.30").multiply(&number("3"))), "36.90");
        assert_eq!(shown(number("36.90").divide(&number("3"))), "12.30");
        assert_eq!(shown(number("10").divide(&number("4"))), "2.5");
        assert_eq!(shown(number("1").divide(&number("3"))), format!("0.{}", "3".repeat(38)));
        assert_eq!(shown(number("2").divide(&number("3"))), format!("0.{}7", "6".repeat(37)));
        assert_eq!(number("1").divide(&number("0.00")), Err(DecimalError::DivisionByZero));
    }

    #[test]
    fn rounding_has_exactly_the_digits_asked_for() {
        for (text, places, rounding, expected) in [
            ("2.345", 2, Rounding::Nearest, "2.35"),
            ("-2.345", 2, Rounding::Nearest, "-2.35"),
            ("2.341", 2, Rounding::Up, "2.35"),
            ("-2.349", 2, Rounding::Up, "-2.34"),
            ("2.349", 2, Rounding::Down, "2.34"),
            ("5", 2, Rounding::Nearest, "5.00"),
            ("0.5", 0, Rounding::Nearest, "1"),
        ] {
            assert_eq!(shown(number(text).round(places, rounding)), expected, "{text}");
        }
    }

    proptest! {
        /// Integers are the oracle: numbers with two digits after the point are hundredths.
        #[test]
        fn sums_products_and_orders_agree_with_integers(a in -1_000_000_000_i128..1_000_000_000, b in -1_000_000_000_i128..1_000_000_000) {
            let cents = |units: i128| {
                let sign = if units < 0 { "-" } else { "" };
                number(&format!("{sign}{}.{:02}", units.abs() / 100, units.abs() % 100))
            };
            let (x, y) = (cents(a), cents(b));
            prop_assert_eq!(x.add(&y).expect("a sum"), cents(a + b));
            prop_assert_eq!(x.subtract(&y).expect("a difference"), cents(a - b));
            prop_assert_eq!(x.multiply(&y).expect("a product").multiply(&number("10000")).expect("a product"), Decimal::from(a * b));
            prop_assert_eq!(x.cmp(&y), a.cmp(&b));
            if b != 0 {
                let quotient = x.divide(&y).expect("a quotient");
                let remainder = x.subtract(&quotient.multiply(&y).expect("a product")).expect("a difference");
                prop_assert!(remainder.abs() < number("1e-20"));
                prop_assert_eq!(quotient.to_integer(), Some(a / b));
            }
        }

        #[test]
        fn every_number_within_the_limit_is_written_as_it_is_read(digits in "[1-9][0-9]{0,37}", point in 0_usize..38) {
            let at = point.min(digits.len() - 1).max(1);
            let text = if at == digits.len() { digits } else { format!("{}.{}", &digits[..at], &digits[at..]) };
            prop_assert_eq!(number(&text).to_string(), text);
        }

        #[test]
        fn no_text_panics(text in "[-+.eE0-9]{0,70}") {
            let _ = Decimal::parse(&text).map(|number| shown(number.multiply(&number)));
        }
    }
}
