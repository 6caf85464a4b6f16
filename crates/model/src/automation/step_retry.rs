//! The retry of a step: policies, each for the errors that it covers.

use std::time::Duration;

use expression::Expression;

use crate::action::ActionError;
use crate::retry::RetryPolicy;

/// The retry policies of a step. The first policy that covers an error counts its attempts.
#[derive(Clone, Debug)]
pub struct StepRetry {
    /// The policies, at least one.
    pub rules: Vec<RetryRule>,
    /// True if they are written as a list.
    pub is_list: bool,
}

/// A retry policy with a condition.
#[derive(Clone, Debug)]
pub struct RetryRule {
    /// The policy.
    pub policy: RetryPolicy,
    /// The condition in place of the classes of errors; it reads `error`. `None` if the classes count.
    pub condition: Option<Expression>,
}

impl From<RetryPolicy> for StepRetry {
    fn from(policy: RetryPolicy) -> Self {
        Self { rules: vec![RetryRule { policy, condition: None }], is_list: false }
    }
}

impl StepRetry {
    /// The maximum number of retries of all policies together.
    pub const MAX: u32 = 100;
    /// The maximum number of policies.
    pub const MAX_RULES: usize = 20;

    /// Returns the number of retries of all policies together; 0 if the step is never retried.
    #[must_use]
    pub fn max(&self) -> u32 {
        self.rules.iter().fold(0, |sum, rule| rule.policy.max.saturating_add(sum)).min(Self::MAX)
    }

    /// Returns the policy if there is only one, and it has no condition.
    #[must_use]
    pub fn only_policy(&self) -> Option<&RetryPolicy> {
        match self.rules.as_slice() {
            [RetryRule { policy, condition: None }] => Some(policy),
            _ => None,
        }
    }

    /// Returns true if an expression computes a setting of a policy.
    #[must_use]
    pub fn is_computed(&self) -> bool {
        self.rules.iter().any(|rule| rule.policy.computed.is_some())
    }

    /// Returns true if an expression computes the number of retries of a policy.
    #[must_use]
    pub fn has_computed_max(&self) -> bool {
        self.rules.iter().any(|rule| rule.policy.has_computed_max())
    }

    /// Returns the expressions of the computed settings, policy by policy.
    pub fn computed_settings(&self) -> impl Iterator<Item = &Expression> {
        self.rules.iter().flat_map(|rule| rule.policy.expressions())
    }

    /// Returns the number of retries that the file itself gives to all policies together, if it is over the largest allowed one.
    /// That of a computed policy is unknown before the step begins.
    #[must_use]
    pub fn excess(&self) -> Option<u32> {
        let given = self.rules.iter().filter(|rule| !rule.policy.has_computed_max());
        let sum = given.fold(0, |sum: u32, rule| sum.saturating_add(rule.policy.max));
        (sum > Self::MAX).then_some(sum)
    }

    /// Returns the message for more retries than allowed.
    #[must_use]
    pub fn excess_message(tries: u32) -> String {
        format!("the policies try {tries} times together, at most {} are allowed", Self::MAX)
    }

    /// Returns the conditions of the policies.
    pub fn conditions(&self) -> impl Iterator<Item = &Expression> {
        self.rules.iter().filter_map(|rule| rule.condition.as_ref())
    }
}

impl RetryRule {
    /// Returns the delay before the next attempt after `attempts` failed ones that this policy covers; `None` to give up.
    #[must_use]
    pub fn next_delay(&self, attempts: u32, error: &ActionError) -> Option<Duration> {
        (attempts <= self.policy.max).then(|| self.policy.delay(attempts, error))
    }
}
