"""Plans: from a query and a declaration to blocks, a mechanism and its price. Nothing here reads rows.

``predicates.compile_workload`` builds the matrices, ``planner.plan`` chooses, ``explain.explain_course`` describes.
"""
