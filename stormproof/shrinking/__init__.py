"""From a failing run to a small one that fails in the same way: ``docs/explain.md`` says how and why."""
