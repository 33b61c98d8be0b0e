"""From a failing run to a small one that fails in the same way: ``docs/shrink.md`` says how and why."""
