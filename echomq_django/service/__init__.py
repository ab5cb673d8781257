"""What jobs.py offers, by subject. Applications import echomq_django.jobs."""
