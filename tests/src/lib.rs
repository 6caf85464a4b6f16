//! doubles
