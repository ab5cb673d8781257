from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Receipt",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.CharField(max_length=20, unique=True, verbose_name="order number")),
                ("job_id", models.CharField(max_length=14)),
                ("customer", models.CharField(max_length=200)),
                ("email", models.EmailField(max_length=254)),
                ("amount", models.DecimalField(decimal_places=2, max_digits=12)),
                ("currency", models.CharField(max_length=3)),
                ("path", models.CharField(help_text="Relative to RECEIPTS_DIR.", max_length=100)),
                ("created", models.DateTimeField(auto_now_add=True)),
            ],
            options={
                "ordering": ("-created", "-id"),
            },
        ),
        migrations.CreateModel(
            name="Run",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.CharField(max_length=20, verbose_name="order number")),
                ("job_id", models.CharField(db_index=True, max_length=14)),
                ("attempt", models.PositiveIntegerField()),
                ("worker_pid", models.PositiveIntegerField()),
                (
                    "outcome",
                    models.CharField(
                        choices=[("started", "Started"), ("done", "Done"), ("failed", "Failed")],
                        default="started",
                        max_length=10,
                    ),
                ),
                ("started", models.DateTimeField(auto_now_add=True)),
            ],
        ),
    ]
