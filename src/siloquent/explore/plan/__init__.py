"""From a query and a declaration to blocks, a mechanism and its price. Nothing here has ever seen a row.

``predicates.compile_workload`` makes the matrices, ``planner.plan`` chooses, ``explain.explain_plan`` says so.
"""
