"""The public functions, one file for each verb; `import contrapose` exports them by name.

The command line calls exactly these functions: its modules parse options and print results.
"""
